"""State shared by the fake kind and the fake kubectl.

A cluster is a JSON file in $FAKE_STATE. A pod is a real container of the Docker engine with the flags that
its manifest requests. Tests inject the faults in $FAKE_FAULTS. The fakes behave and print like kind 0.30
and kubectl 1.32.
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
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import manifests  # noqa: E402

STATE = pathlib.Path(os.environ["FAKE_STATE"])
FAULTS = os.environ.get("FAKE_FAULTS", "").split()
LABEL = f"sandbox-runtime-fake={STATE}"


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


def start_pod(cluster, name, template):
    """Runs the pod of a template like the kubelet. Returns its state, with a URL or a failure reason."""
    pod = {
        "name": name,
        "labels": template.get("metadata", {}).get("labels", {}),
        "spec": template["spec"],
        "restarts": 0,
    }
    enforced = cluster["objects"].get("namespace", {}).get("metadata", {}).get("labels", {})
    if enforced.get("pod-security.kubernetes.io/enforce") != "restricted":
        return {**pod, "reason": "the namespace does not enforce restricted"}
    violations = [*manifests.restricted({"spec": template["spec"]})]
    if violations:
        return {**pod, "reason": f'violates PodSecurity "restricted:latest": {violations}'}
    try:
        volumes = {
            volume["name"]: make_volume(cluster, name, volume)
            for volume in template["spec"].get("volumes", [])
        }
        for container in template["spec"].get("initContainers", []):
            docker("run", "--rm", *flags(cluster, template["spec"], container, volumes))
        (container,) = template["spec"]["containers"]
        if not fault("never-ready"):
            docker(
                "run",
                "--detach",
                "--name",
                container_of(name),
                *flags(cluster, template["spec"], container, volumes),
            )
            address = docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", container_of(name))
            pod["url"] = f"http://{address}:{container['ports'][0]['containerPort']}"
            await_probe(pod["url"] + container["startupProbe"]["httpGet"]["path"])
    except RuntimeError as error:
        return {**pod, "reason": str(error)}
    return pod


def container_of(pod):
    return f"sandbox-runtime-fake-{STATE.name}-{pod}"


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
    raise RuntimeError(f'Failed to pull image "{name}": ImagePullBackOff')


def flags(cluster, spec, container, volumes):
    outer, inner = spec["securityContext"], container["securityContext"]
    limits = container["resources"]["limits"]
    result = [
        "--label",
        LABEL,
        "--user",
        f"{outer['runAsUser']}:{outer['runAsGroup']}",
        "--group-add",
        str(outer["fsGroup"]),
    ]
    result += ["--memory", f"{mebibytes(limits['memory'])}m", "--pids-limit", "512", "--no-healthcheck"]
    if inner["readOnlyRootFilesystem"]:
        result.append("--read-only")
    if not inner["allowPrivilegeEscalation"]:
        result += ["--security-opt", "no-new-privileges"]
    result += [f"--cap-drop={capability}" for capability in inner["capabilities"]["drop"]]
    result += [f"--env={variable['name']}={variable['value']}" for variable in container.get("env", [])]
    for mount in container["volumeMounts"]:
        mode = "ro" if mount.get("readOnly") else "rw"
        result.append(f"--volume={volumes[mount['name']]}:{mount['mountPath']}:{mode}")
    command = container.get("command", [])
    if command:
        result += ["--entrypoint", command[0]]
    return [*result, image(cluster, container["image"]), *command[1:], *container.get("args", [])]


def await_probe(url):
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=3):
            return
        time.sleep(0.1)
    raise RuntimeError(f"startup probe failed: {url}")


def stop_pod(pod):
    grace = pod["spec"]["terminationGracePeriodSeconds"]
    if "url" in pod:
        docker("stop", "--time", str(grace), container_of(pod["name"]), check=False)
    docker("rm", "--force", "--volumes", container_of(pod["name"]), check=False)
    shutil.rmtree(STATE / "volumes" / pod["name"], ignore_errors=True)
