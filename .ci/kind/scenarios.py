#!/usr/bin/env python3
"""Runs run-test-kind.sh against fakes of kind and kubectl and checks its output, exit status and cleanup.

scenarios.py TOOLBOX-IMAGE PYTHON-IMAGE [SCENARIO...]

Without names it runs all scenarios, several at a time: they wait more than they compute.
"""

import concurrent.futures
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLBOX, PYTHON_IMAGE = sys.argv[1:3]
CHOSEN = sys.argv[3:]
CONTROLLER = HERE / "fakes" / "controller.yaml"
INTERRUPTED, MISSING = 130, 69
PARALLEL = 3


class Scenario:
    """One or more runs of the script on fresh state."""

    def __init__(self, name):
        self.name = name
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="kind-scenario-"))
        self.state, self.temporary = self.work / "state", self.work / "tmp"
        self.state.mkdir()
        self.temporary.mkdir()
        self.user_kubeconfig = self.work / "kubeconfig"
        self.user_kubeconfig.write_text("the user's own\n")
        self.runs = []  # process ids of the script, which are part of the names of its images

    def run(
        self,
        expected,
        *arguments,
        faults="",
        interrupt=None,
        says=(),
        without=None,
        docker_host=None,
        full=False,
    ):
        path = [str(HERE / "fakes"), os.path.dirname(sys.executable), os.environ["PATH"]]
        environment = {
            **os.environ,
            "PATH": ":".join(path) if without is None else only_without(self.work / "path", path, without),
            "FAKE_DOCKER": shutil.which("docker"),
            "FAKE_CURL": shutil.which("curl"),
            "FAKE_SHORT_TEST": "" if full else "yes",
            "FAKE_STATE": str(self.state),
            "FAKE_FAULTS": faults,
            "FAKE_PULLS": f"python:3.14-slim={PYTHON_IMAGE}",
            "KUBECONFIG": str(self.user_kubeconfig),
            "TMPDIR": str(self.temporary),
            "SKIP_SDK": "" if full else "yes",
        }
        if docker_host:
            environment["DOCKER_HOST"] = docker_host
        command = [str(ROOT / "run-test-kind.sh"), "--toolbox", TOOLBOX, *arguments]
        log = self.work / "log"
        start = time.monotonic()
        with open(log, "w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # A background shell ignores SIGINT, and its children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            self.runs.append(process.pid)
            stop_seconds = None
            if interrupt:
                self.until(process, interrupt, log)
                interrupted = time.monotonic()
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                process.wait(timeout=120)
                stop_seconds = time.monotonic() - interrupted
            status = process.wait(timeout=600)
        text = log.read_text(encoding="utf-8")
        self.check(status == expected, f"exit status {status}, not {expected}", text)
        for sentence in says:
            self.check(re.search(sentence, text), f"the output does not contain {sentence!r}", text)
        took = f"{time.monotonic() - start:.1f} s" + (
            f", {stop_seconds:.1f} s after the interrupt" if stop_seconds else ""
        )
        print(
            f"ok  {self.name}: {' '.join(arguments) or 'no options'}: exit status {status} ({took})",
            flush=True,
        )
        return text

    def until(self, process, moment, log):
        """Waits for a moment: a fault that hangs, or a line of output."""
        for _ in range(3000):
            if (self.state / "hanging").exists() or (
                not moment.startswith("hang-") and moment in log.read_text()
            ):
                return
            self.check(process.poll() is None, f"ended before {moment}", log.read_text())
            time.sleep(0.05)
        process.kill()
        self.check(False, f"never reached {moment}", log.read_text())

    def check(self, right, what, text=""):
        if not right:
            print(f"FAIL  {self.name}: {what}\n{text}", flush=True)
            self.clean_up()
            sys.exit(1)

    def clean_up(self):
        for container in self.containers().split():
            subprocess.run(
                ["docker", "rm", "--force", "--volumes", container], check=False, capture_output=True
            )

    def containers(self):
        return docker("ps", "--all", "--quiet", "--filter", f"label=sandbox-runtime-fake={self.state}")

    def nothing_left(self, clusters=(), diagnostics=False):
        """Checks that only the clusters that existed before are left, unchanged."""
        self.check(
            self.user_kubeconfig.read_text() == "the user's own\n", "the user's kubeconfig was changed"
        )
        left = {path.stem: json.loads(path.read_text()) for path in self.state.glob("*.cluster")}
        self.check(left == dict(clusters), f"clusters left: {left}")
        for run in self.runs:
            images = docker("images", "--quiet", "--filter", f"reference=sandbox-runtime-test-{run}-*")
            self.check(not images, f"images left: {images}")
        self.check(not self.containers(), f"containers left: {self.containers()}")
        files = sorted(path.name for path in self.temporary.iterdir())
        kept = [name for name in files if name.startswith("run-test-kind.")]
        self.check(files == kept and bool(kept) == diagnostics, f"files left: {files}")
        processes = self.processes()
        self.check(not processes, f"processes left: {processes}")
        shutil.rmtree(self.work)

    def processes(self):
        found = []
        for environ in glob.glob("/proc/[0-9]*/environ"):
            try:
                if f"FAKE_STATE={self.state}".encode() in pathlib.Path(environ).read_bytes().split(b"\0"):
                    found.append(
                        pathlib.Path(environ).with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                    )
            except OSError:
                pass
        return found


def docker(*arguments):
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def only_without(directory, path, tool):
    """A PATH with the programs of `path` except one."""
    directory.mkdir()
    for source in ":".join(path).split(":"):
        for file in pathlib.Path(source).glob("*"):
            link = directory / file.name
            if file.name != tool and not link.exists():
                link.symlink_to(file)
    return str(directory)


def existing(scenario, name, controller=True):
    """A cluster of the user, with two RuntimeClasses, and an object and an image of the user."""
    crd = "customresourcedefinition.apiextensions.k8s.io/sandboxes.agents.x-k8s.io"
    cluster = {
        "images": ["theirs:1"],
        "objects": {"configmap/theirs": {}},
        "pods": {},
        "runtimeClasses": {"gvisor": "runsc", "kata": "kata-qemu"},
    }
    if controller:
        cluster["objects"][crd] = {"metadata": {"name": "sandboxes.agents.x-k8s.io"}}
    (scenario.state / f"{name}.cluster").write_text(json.dumps(cluster))
    return {name: cluster}


def fresh():
    scenario = Scenario("fresh, with injection and the SDK")
    text = scenario.run(
        0,
        "--inject",
        full=True,
        says=[
            "creating the cluster",
            "NOT VERIFIED: .* [0-9a-f]{64}",
            "running the tester in the cluster",
            "[1-9][0-9]+ passed, 0 failed",
            "a command through the port-forward: passed",
            "no restarts",
            "running the checks of the Python SDK",
            "deleted in",
            "injected-by-init-container is ready",
            "injected-by-image-volume is ready",
            "claim to first output: [0-9]+ ms, including the port-forward",
            "passed\n",
            "cleaning up",
        ],
    )
    print("\n".join(f"    {line}" for line in text.splitlines() if line.startswith("[")))
    scenario.nothing_left()


def keep_and_again():
    scenario = Scenario("kept, used again")
    scenario.run(
        0,
        "--keep",
        "--cluster",
        "mine",
        "--controller",
        str(CONTROLLER),
        says=["kind get kubeconfig --name mine", "kind delete cluster --name mine"],
    )
    scenario.check((scenario.state / "mine.cluster").exists(), "the cluster was not kept")
    test_through_port_forward(scenario)
    scenario.run(
        0, "--cluster", "mine", says=["using the existing cluster mine", "using the existing controller"]
    )
    left = json.loads((scenario.state / "mine.cluster").read_text())
    scenario.check(not left["pods"] and left["images"] != [], f"left: {left}")
    subprocess.run(
        [str(HERE / "fakes" / "kind"), "delete", "cluster", "--name", "mine", "--kubeconfig", "/nonexistent"],
        env=fake_environment(scenario),
        check=True,
        capture_output=True,
    )
    scenario.nothing_left()


def fake_environment(scenario):
    return {
        **os.environ,
        "FAKE_STATE": str(scenario.state),
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
    }


def test_through_port_forward(scenario):
    """All checks of the tester pass through a port-forward to the kept sandbox too."""
    kubeconfig = scenario.work / "kind-mine"
    kubeconfig.write_text("kind-mine\n")
    command = [
        HERE / "fakes" / "kubectl",
        "--kubeconfig",
        kubeconfig,
        "--context",
        "kind-mine",
        "port-forward",
    ]
    command += ["--address", "127.0.0.1", "pod/sandbox-runtime-0", ":8888"]
    forwarder = subprocess.Popen(command, env=fake_environment(scenario), stdout=subprocess.PIPE, text=True)
    port = re.search(r"127\.0\.0\.1:(\d+) ->", forwarder.stdout.readline()).group(1)
    cargo = ["cargo", "run", "--quiet", "--locked", "--package", "tester", "--", "127.0.0.1", port]
    tester = subprocess.run(cargo, cwd=ROOT, check=False, capture_output=True, text=True)
    forwarder.kill()
    forwarder.wait()
    scenario.check(tester.returncode == 0, "the tester failed through the port-forward", tester.stdout)
    print(f"    through a port-forward: {tester.stdout.splitlines()[-1]}")


def reuse():
    scenario = Scenario("a cluster of the user")
    clusters = existing(scenario, "theirs")
    scenario.run(0, "--cluster", "theirs", faults="load-fails", says=["loading it as an archive", "passed\n"])
    scenario.nothing_left(clusters)


def missing():
    for tool in ("kind", "kubectl", "curl"):
        scenario = Scenario(f"without {tool}")
        scenario.run(MISSING, without=tool, says=[f"missing: {tool} "])
        scenario.nothing_left()
    scenario = Scenario("without kind, and without a running engine")
    scenario.run(
        MISSING,
        without="kind",
        docker_host="unix:///nonexistent",
        says=["missing: kind ", "missing: a running Docker engine"],
    )
    scenario.nothing_left()


def runtime_classes():
    scenario = Scenario("a RuntimeClass that a port-forward does not reach")
    clusters = existing(scenario, "theirs")
    scenario.run(
        0,
        "--cluster",
        "theirs",
        "--runtime-class",
        "gvisor",
        "--inject",
        says=[
            "a port-forward does not reach the pods of the RuntimeClass gvisor .connection refused",
            "SKIPPED: one command and the Python SDK",
            "claim to first output: [0-9]+ ms, including the tester's Job",
            "passed\n",
        ],
    )
    scenario.nothing_left(clusters)
    if "runsc" not in docker("info", "--format", "{{json .Runtimes}}"):
        print("    SKIPPED: gVisor itself (the engine has no runtime runsc); these pods ran with runc")

    scenario = Scenario("a RuntimeClass that a port-forward reaches")
    clusters = existing(scenario, "theirs")
    text = scenario.run(
        0,
        "--cluster",
        "theirs",
        "--runtime-class",
        "kata",
        says=["a command through the port-forward: passed", "including the port-forward", "passed\n"],
    )
    scenario.check("does not reach" not in text, "port-forward not used", text)
    scenario.nothing_left(clusters)


def no_runtime_class():
    for arguments, sentence in (
        (
            ("--cluster", "theirs", "--runtime-class", "nope"),
            "cluster theirs has no RuntimeClass nope; it has: gvisor kata",
        ),
        (("--runtime-class", "gvisor"), "cluster sandbox-runtime-test does not exist"),
    ):
        scenario = Scenario("a RuntimeClass that does not exist")
        clusters = existing(scenario, "theirs")
        text = scenario.run(MISSING, *arguments, says=[sentence])
        scenario.check("building" not in text, "built before the check", text)
        scenario.nothing_left(clusters)


def wrong_option():
    scenario = Scenario("wrong options")
    scenario.run(64, "--runtime-class", "No/Name", says=["usage:"])
    scenario.run(64, "--runtime_class", "gvisor", says=["usage:"])
    scenario.run(64, "--no-such-option", says=["usage:"])
    scenario.run(64, "--timeout", "soon", says=["usage:"])
    scenario.nothing_left()


def fails(faults, *says, diagnostics=True, timeout=60):
    """One run with faults."""
    scenario = Scenario(faults)
    clusters = existing(scenario, "theirs", controller=False) if faults == "never-ready" else {}
    arguments = ["--timeout", str(timeout), *(["--cluster", "theirs"] if clusters else [])]
    text = scenario.run(1, *arguments, faults=faults, says=says)
    if diagnostics:
        directory = pathlib.Path(re.search("diagnostics saved to (.*)", text).group(1))
        scenario.check((directory / "objects.yaml").stat().st_size > 0, "no objects among the diagnostics")
        scenario.check((directory / "controller-log.txt").exists(), "no log of the controller")
    scenario.nothing_left(clusters, diagnostics)


def failures():
    fails("create-fails", "Preparing nodes", "kind could not create the cluster", diagnostics=False)
    fails("download-fails", "error: 404", "cannot download https://", diagnostics=False)
    says = ["timed out waiting for the condition", "is not ready .waited 6 s", "diagnostics saved"]
    reason = "last failure: pod/sandbox-runtime: FailedMount: MountVolume.SetUp failed"
    fails("never-ready", *says, reason, timeout=6)
    fails("forward-dies", "lost connection to pod", "the port-forward ended unexpectedly")
    fails("restarted", "the sandbox was restarted 1 times")
    fails("slow-deletion", "deletion took [0-9]+ s")


def early_failures():
    """Failures that end a wait at once. Its timeout is longer than that of a scenario."""
    for faults, *says in (
        (
            "image-lost",
            "pod/sandbox-runtime in sandbox-runtime-test: ImagePullBackOff: .*sandbox-runtime-test-",
        ),
        (
            "sandbox-crashes",
            "last line of the log of sandbox: sandbox-runtime: .*SANDBOX_LISTEN",
            "pod/sandbox-runtime in sandbox-runtime-test: CrashLoopBackOff: back-off",
        ),
        (
            "controller-crashes",
            "last line of the log of agent-sandbox-controller: panic: open /tmp",
            "pod/agent-sandbox-controller-0 in agent-sandbox-system: CrashLoopBackOff: back-off",
        ),
        ("quota", "sandbox/sandbox-runtime in sandbox-runtime-test: Error seen: .*exceeded quota"),
        ("pod-security", "job/tester in sandbox-runtime-test: Error creating: .*violates PodSecurity"),
        ("unschedulable", "pod/tester-.* is not scheduled: 0/1 nodes are available: .* .for 15 s"),
        ("tester-fails", "tester failed .exit status 3"),
    ):
        fails(faults, *says, timeout=3600)


def interrupts_while_preparing():
    for moment in ("building the static", "built sandbox-runtime", "hang-create", "hang-load", "hang-apply"):
        interrupt(moment)


def interrupts_while_testing():
    for moment in ("hang-wait", "hang-job", "exit code: 0", "hang-forward"):
        interrupt(moment)
    scenario = Scenario("Ctrl-C in a cluster of the user")
    clusters = existing(scenario, "theirs")
    scenario.run(INTERRUPTED, "--cluster", "theirs", faults="hang-forward", interrupt="hang-forward")
    scenario.nothing_left(clusters)


def interrupt(moment):
    """Ctrl-C at a line of output, such as the first of the streamed tester, or where a fault hangs."""
    scenario = Scenario(f"Ctrl-C: {moment}")
    hangs = moment.startswith("hang-")
    scenario.run(INTERRUPTED, faults=moment if hangs else "", interrupt=moment, full=not hangs)
    scenario.nothing_left()


# The longest first.
ALL = {
    function.__name__: function
    for function in (
        fresh,
        early_failures,
        keep_and_again,
        failures,
        interrupts_while_testing,
        runtime_classes,
        interrupts_while_preparing,
        reuse,
        missing,
        no_runtime_class,
        wrong_option,
    )
}


def run_in_process(name):
    command = [sys.executable, __file__, TOOLBOX, PYTHON_IMAGE, name]
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_all():
    """After a failure, only the scenarios that have begun continue."""
    failed = False
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_in_process, name) for name in ALL]):
            if done.cancelled():
                continue
            print(done.result().stdout, end="", flush=True)
            if done.result().returncode:
                failed = True
                pool.shutdown(wait=False, cancel_futures=True)
    sys.exit(failed)


if CHOSEN:
    for name in CHOSEN:
        ALL[name]()
else:
    run_all()
