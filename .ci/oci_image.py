#!/usr/bin/env python3
"""Writes the `runtime` image of Dockerfile.scratch for several architectures as one reproducible OCI archive.

    oci_image.py --output FILE --epoch SECONDS --version V --revision R --source URL
                 BINARY-x86_64 BINARY-aarch64

The images that Docker builds contain the build time. Each image is built from the Dockerfile, which remains
the only description of its configuration, and its files are archived again with the time of the commit.
"""

import argparse
import datetime
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Files that the engine adds to every container.
ADDED_BY_ENGINE = ("dev", "proc", "sys", "etc", ".dockerenv")
KEPT = ("User", "ExposedPorts", "Env", "Entrypoint", "WorkingDir", "Labels", "Healthcheck")


def docker(*arguments):
    return subprocess.run(["docker", *arguments], check=True, capture_output=True).stdout


def build(binary, arguments):
    """The configuration and the exported files of the image with this binary."""
    with tempfile.TemporaryDirectory() as context:
        shutil.copy(binary, f"{context}/sandbox-runtime")
        options = [
            f"--build-arg={name}={getattr(arguments, name.lower())}"
            for name in ("VERSION", "REVISION", "SOURCE")
        ]
        image = (
            docker(
                "build",
                "--quiet",
                "--no-cache",
                "--file",
                str(ROOT / "Dockerfile.scratch"),
                "--target",
                "runtime",
                "--build-arg=BINARY=sandbox-runtime",
                *options,
                context,
            )
            .decode()
            .strip()
            .splitlines()[-1]
        )
    container = docker("create", image).decode().strip()
    try:
        config = json.loads(docker("image", "inspect", image))[0]["Config"]
        return {key: config[key] for key in KEPT}, docker("export", container)
    finally:
        docker("rm", container)
        docker("rmi", "--force", image)


def layer(exported, epoch):
    """A layer of the files in sorted order, with the time of the commit."""
    result = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(exported)) as files,
        tarfile.open(fileobj=result, mode="w", format=tarfile.USTAR_FORMAT) as out,
    ):
        for file in sorted(files, key=lambda member: member.name):
            if file.name.split("/")[0] in ADDED_BY_ENGINE:
                continue
            plain = tarfile.TarInfo(file.name)
            plain.type, plain.mode, plain.size, plain.mtime = file.type, file.mode, file.size, epoch
            plain.uid, plain.gid = file.uid, file.gid
            out.addfile(plain, files.extractfile(file))
    return result.getvalue()


class Layout:
    """An OCI image layout that is a tar file."""

    def __init__(self, path, epoch):
        self.epoch, self.names = epoch, set()
        self.archive = tarfile.open(path, mode="w", format=tarfile.USTAR_FORMAT)

    def add(self, name, content):
        if name not in self.names:
            self.names.add(name)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), self.epoch, 0o444
            self.archive.addfile(entry, io.BytesIO(content))

    def blob(self, content, media_type):
        digest = hashlib.sha256(content).hexdigest()
        self.add(f"blobs/sha256/{digest}", content)
        return {
            "mediaType": f"application/vnd.oci.image.{media_type}",
            "digest": f"sha256:{digest}",
            "size": len(content),
        }


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main():
    parser = argparse.ArgumentParser()
    for name in ("--output", "--version", "--revision", "--source"):
        parser.add_argument(name, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("binaries", nargs="+")
    arguments = parser.parse_args()
    created = datetime.datetime.fromtimestamp(arguments.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    layout, manifests = Layout(arguments.output, arguments.epoch), []
    for binary in arguments.binaries:
        platform = {"architecture": ARCHITECTURES[binary.rpartition("-")[2]], "os": "linux"}
        config, exported = build(binary, arguments)
        config["Labels"]["org.opencontainers.image.created"] = created
        files = layer(exported, arguments.epoch)
        descriptor = layout.blob(files, "layer.v1.tar")
        image = {
            **platform,
            "config": config,
            "created": created,
            "rootfs": {"type": "layers", "diff_ids": [descriptor["digest"]]},
            "history": [{"created": created, "created_by": "Dockerfile.scratch, --target runtime"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": layout.blob(encoded(image), "config.v1+json"),
            "layers": [descriptor],
        }
        manifests.append({**layout.blob(encoded(manifest), "manifest.v1+json"), "platform": platform})
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    }
    nested = layout.blob(encoded(index), "index.v1+json")
    nested["annotations"] = {"org.opencontainers.image.ref.name": arguments.version}
    layout.add("index.json", encoded({"schemaVersion": 2, "manifests": [nested]}))
    layout.add("oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
    layout.archive.close()


if __name__ == "__main__":
    main()
