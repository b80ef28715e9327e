"""State shared by the fake kind and the fake kubectl.

A cluster is a JSON file in $FAKE_STATE. A pod is a real container of the Docker engine with the flags that
its manifest requests. Tests inject the faults in $FAKE_FAULTS. The fakes behave and print like kind 0.30
and kubectl 1.32.

The script runs kubectl hundreds of times, so large modules are imported only where they are used.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import uuid

STATE = pathlib.Path(os.environ["FAKE_STATE"])
FAULTS = os.environ.get("FAKE_FAULTS", "").split()
LABEL = f"sandbox-runtime-fake={STATE}"
GVISOR = "runsc"  # the handler of a RuntimeClass, and the name of the engine's runtime


class Refused(Exception):
    """The API server refuses to create a pod."""


class Waiting(Exception):
    """A container cannot start or crashes. The arguments are the reason and the message of the kubelet."""


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


def fault(name):
    """Whether the test injects this fault. `hang-…` does not return: the test interrupts the script there."""
    if name in FAULTS and name.startswith("hang-"):
        (STATE / "hanging").write_text(name)
        time.sleep(600)
    return name in FAULTS


def once(name):
    """True on the first call with this name."""
    try:
        (STATE / f"once-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def names():
    return sorted(path.stem for path in STATE.glob("*.cluster"))


@contextlib.contextmanager
def opened(name):
    """The state of a cluster, under an exclusive lock."""
    with open(STATE / f"{name}.cluster", "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        cluster = json.load(file)
        yield cluster
        file.seek(0)
        file.truncate()
        json.dump(cluster, file, indent=1)


def docker(*arguments, check=True):
    done = subprocess.run(["docker", *arguments], check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"docker {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()


def mebibytes(quantity):
    return {"Mi": 1, "Gi": 1024}[quantity[-2:]] * int(quantity[:-2])


def admit(cluster, name, spec):
    """Creates a pod like the API server."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    import manifests

    if fault("quota"):
        raise Refused(
            f'pods "{name}" is forbidden: exceeded quota: tight, requested: pods=1, limited: pods=0'
        )
    enforced = cluster["objects"]["namespace"]["metadata"].get("labels", {})
    if enforced.get("pod-security.kubernetes.io/enforce") != "restricted":
        raise Refused("fake kubectl: the namespace does not enforce restricted")
    if fault("pod-security") and "restartPolicy" in spec:
        del spec["securityContext"]["seccompProfile"]
    if violations := [*manifests.restricted({"spec": spec})]:
        raise Refused(f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": {violations}')
    class_name = spec.get("runtimeClassName")
    if class_name and class_name not in cluster["runtimeClasses"]:
        raise Refused(f'pods "{name}" is forbidden: pod rejected: RuntimeClass "{class_name}" not found')


def start_pod(cluster, name, template, labels):
    """Runs the pod of a template like the kubelet. Returns its state: a URL, or why a container waits."""
    spec = template["spec"]
    admit(cluster, name, spec)
    (container,) = spec["containers"]
    labels = {**template.get("metadata", {}).get("labels", {}), **labels}
    pod = {"name": name, "uid": str(uuid.uuid4()), "labels": labels, "spec": spec}
    cluster["pods"][name] = pod
    try:
        run_containers(cluster, pod, container)
    except Waiting as waiting:
        pod["waiting"] = dict(zip(("reason", "message"), waiting.args, strict=True))
    except RuntimeError as error:
        pod["waiting"] = {"reason": "RunContainerError", "message": str(error)}


def run_containers(cluster, pod, container):
    name, spec = pod["name"], pod["spec"]
    job = "job-name" in pod["labels"]
    if fault("unschedulable") and job:
        pod["unschedulable"] = "0/1 nodes are available: 1 Insufficient memory."
        return
    volumes = {volume["name"]: make_volume(cluster, name, volume) for volume in spec.get("volumes", [])}
    for init in spec.get("initContainers", []):
        docker("run", "--rm", *flags(cluster, spec, init, volumes))
    if fault("never-ready"):
        return
    docker("run", "--detach", "--name", container_of(name), *flags(cluster, spec, container, volumes))
    pod["address"] = docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", container_of(name))
    if not job:
        pod["url"] = f"http://{pod['address']}:{container['ports'][0]['containerPort']}"
        await_probe(pod, pod["url"] + container["startupProbe"]["httpGet"]["path"])


def container_of(pod):
    return f"sandbox-runtime-fake-{STATE.parent.name}-{pod}"


def make_volume(cluster, pod, volume):
    directory = STATE / "volumes" / pod / volume["name"]
    directory.mkdir(parents=True)
    if "image" in volume:
        docker(
            "create", "--name", container_of(f"{pod}-volume"), image(cluster, volume["image"]["reference"])
        )
        export = subprocess.Popen(["docker", "export", container_of(f"{pod}-volume")], stdout=subprocess.PIPE)
        subprocess.run(["tar", "--directory", directory, "--extract"], stdin=export.stdout, check=True)
        docker("rm", container_of(f"{pod}-volume"))
    else:
        directory.chmod(0o777)  # the mode of an emptyDir
    return directory


def image(cluster, name):
    """The local name of an image that the node has or can pull."""
    if name in cluster["images"]:
        return name
    for pulled in os.environ.get("FAKE_PULLS", "").split():
        if pulled.split("=")[0] == name:
            return pulled.split("=")[1]
    raise Waiting("ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: no such host')


def flags(cluster, spec, container, volumes):
    outer, inner = spec["securityContext"], container["securityContext"]
    limits = container["resources"]["limits"]
    result = [
        "--label",
        LABEL,
        "--user",
        f"{outer['runAsUser']}:{outer['runAsGroup']}",
    ]
    if "fsGroup" in outer:
        result += ["--group-add", str(outer["fsGroup"])]
    handler = cluster["runtimeClasses"].get(spec.get("runtimeClassName"))
    if handler == GVISOR and handler in docker("info", "--format", "{{json .Runtimes}}"):
        result.append(f"--runtime={handler}")
    result += ["--memory", f"{mebibytes(limits['memory'])}m", "--pids-limit", "512", "--no-healthcheck"]
    if inner["readOnlyRootFilesystem"]:
        result.append("--read-only")
    if not inner["allowPrivilegeEscalation"]:
        result += ["--security-opt", "no-new-privileges"]
    result += [f"--cap-drop={capability}" for capability in inner["capabilities"]["drop"]]
    result += [f"--env={variable['name']}={variable['value']}" for variable in container.get("env", [])]
    if "ports" in container and fault("sandbox-crashes"):
        result.append("--env=SANDBOX_LISTEN=nowhere")
    for mount in container.get("volumeMounts", []):
        mode = "ro" if mount.get("readOnly") else "rw"
        result.append(f"--volume={volumes[mount['name']]}:{mount['mountPath']}:{mode}")
    command = container.get("command", [])
    if command:
        result += ["--entrypoint", command[0]]
    return [*result, image(cluster, container["image"]), *command[1:], *arguments_of(container)]


def arguments_of(container):
    arguments = container.get("args", [])
    if container["name"] != "tester" or "--" in arguments:
        return arguments
    if fault("tester-fails"):
        return [*arguments, "--", "sh", "-c", "exit 3"]
    return [*arguments, "--", "echo", "short"] if os.environ["FAKE_SHORT_TEST"] else arguments


def await_probe(pod, url):
    import urllib.request

    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=3):
            return
        if container_state(pod["name"])["Status"] != "running":
            raise Waiting(
                "CrashLoopBackOff", f"back-off 10s restarting failed container=sandbox pod={pod['name']}"
            )
        time.sleep(0.1)
    raise RuntimeError(f"startup probe failed: {url}")


def container_state(pod):
    (container,) = json.loads(docker("inspect", container_of(pod)))
    return {**container["State"], "RestartCount": container["RestartCount"]}


def stop_pod(pod):
    grace = pod["spec"].get("terminationGracePeriodSeconds", 0)
    if "url" in pod:
        docker("stop", "--time", str(grace), container_of(pod["name"]), check=False)
    docker("rm", "--force", "--volumes", container_of(pod["name"]), check=False)
    shutil.rmtree(STATE / "volumes" / pod["name"], ignore_errors=True)
