#!/usr/bin/env python3
"""Runs run-test-kind.sh against fakes of kind and kubectl and checks its output, exit status and cleanup.

scenarios.py TOOLBOX-IMAGE PYTHON-IMAGE [SCENARIO...]
"""

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
        self.images = docker(
            "images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=sandbox-runtime-test*"
        )

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
            "FAKE_CARGO": shutil.which("cargo"),
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
            clean_up()
            sys.exit(1)

    def nothing_left(self, clusters=(), diagnostics=False):
        """Checks that only the clusters that existed before are left, unchanged."""
        self.check(
            self.user_kubeconfig.read_text() == "the user's own\n", "the user's kubeconfig was changed"
        )
        left = {path.stem: json.loads(path.read_text()) for path in self.state.glob("*.cluster")}
        self.check(left == dict(clusters), f"clusters left: {left}")
        images = docker(
            "images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=sandbox-runtime-test*"
        )
        self.check(set(images.split()) <= set(self.images.split()), f"images left: {images}")
        containers = docker("ps", "--all", "--quiet", "--filter", f"label=sandbox-runtime-fake={self.state}")
        self.check(not containers, f"containers left: {containers}")
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


def clean_up():
    for container in docker("ps", "--all", "--quiet", "--filter", "name=sandbox-runtime-fake").split():
        subprocess.run(["docker", "rm", "--force", "--volumes", container], check=False, capture_output=True)


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
    """A cluster of the user, with an object and an image of the user."""
    crd = "customresourcedefinition.apiextensions.k8s.io/sandboxes.agents.x-k8s.io"
    cluster = {"images": ["theirs:1"], "objects": {"configmap/theirs": {}}, "pods": {}}
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
            "[1-9][0-9]+ passed, 0 failed",
            "no restarts",
            "running the checks of the Python SDK",
            "deleted in",
            "injected-by-init-container is ready",
            "injected-by-image-volume is ready",
            "claim to first output",
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
    scenario.run(
        0, "--cluster", "mine", says=["using the existing cluster mine", "using the existing controller"]
    )
    left = json.loads((scenario.state / "mine.cluster").read_text())
    scenario.check(not left["pods"] and left["images"] != [], f"left: {left}")
    subprocess.run(
        [str(HERE / "fakes" / "kind"), "delete", "cluster", "--name", "mine", "--kubeconfig", "/nonexistent"],
        env={
            **os.environ,
            "FAKE_STATE": str(scenario.state),
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        },
        check=True,
        capture_output=True,
    )
    scenario.nothing_left()


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


def wrong_option():
    scenario = Scenario("wrong options")
    scenario.run(64, "--no-such-option", says=["usage:"])
    scenario.run(64, "--timeout", "soon", says=["usage:"])
    scenario.nothing_left()


def failures():
    for faults, says, diagnostics in (
        ("create-fails", ["Preparing nodes", "kind could not create the cluster"], False),
        ("download-fails", ["error: 404", "cannot download https://"], False),
        (
            "never-ready",
            ["timed out waiting for the condition", "is not ready", "diagnostics saved to"],
            True,
        ),
        ("forward-dies", ["lost connection to pod", "the port-forward ended unexpectedly"], True),
        ("restarted", ["the sandbox was restarted 1 times"], True),
        ("slow-deletion", ["deletion took [0-9]+ s"], True),
    ):
        scenario = Scenario(faults)
        clusters = existing(scenario, "theirs", controller=False) if faults == "never-ready" else {}
        arguments = ["--timeout", "6"] + (["--cluster", "theirs"] if clusters else [])
        text = scenario.run(1, *arguments, faults=faults, says=says)
        if diagnostics:
            directory = pathlib.Path(re.search("diagnostics saved to (.*)", text).group(1))
            scenario.check(
                (directory / "objects.yaml").stat().st_size > 0, "no objects among the diagnostics"
            )
            scenario.check((directory / "controller-log.txt").exists(), "no log of the controller")
        scenario.nothing_left(clusters, diagnostics)


def interrupts():
    for moment in (
        "building the static",
        "built sandbox-runtime",
        "hang-create",
        "hang-load",
        "hang-apply",
        "hang-wait",
        "hang-forward",
        "running the tester",
    ):
        scenario = Scenario(f"Ctrl-C: {moment}")
        scenario.run(
            INTERRUPTED, faults=moment if moment.startswith("hang-") else "", interrupt=moment, full=True
        )
        scenario.nothing_left()
    scenario = Scenario("Ctrl-C in a cluster of the user")
    clusters = existing(scenario, "theirs")
    scenario.run(INTERRUPTED, "--cluster", "theirs", faults="hang-forward", interrupt="hang-forward")
    scenario.nothing_left(clusters)


ALL = {
    function.__name__: function
    for function in (wrong_option, missing, fresh, keep_and_again, reuse, failures, interrupts)
}
for name in CHOSEN or ALL:
    ALL[name]()
clean_up()
