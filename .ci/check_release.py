"""Checks the image and the SBOM of a release:   check_release.py DIRECTORY"""

import io
import json
import pathlib
import sys
import tarfile

CRATES = {"getrandom", "httparse", "libc", "serde", "serde_json", "signal-hook"}
LABELS = {"title", "description", "licenses", "version", "revision", "source", "created"}
FILES = [("app", 0o755, 1000), ("sandbox-runtime", 0o555, 0)]


class Image:
    """An OCI archive."""

    def __init__(self, path):
        self.archive = tarfile.open(path)

    def file(self, name):
        return self.archive.extractfile(name).read()

    def blob(self, descriptor):
        return self.file("blobs/" + descriptor["digest"].replace(":", "/"))

    def manifests(self):
        (index,) = json.loads(self.file("index.json"))["manifests"]
        return json.loads(self.blob(index))["manifests"]


def check_image(image, manifest, binary):
    parts = json.loads(image.blob(manifest))
    config = json.loads(image.blob(parts["config"]))["config"]
    assert config["User"] == "1000:1000", config
    assert config["Entrypoint"] == ["/sandbox-runtime"], config
    assert config["WorkingDir"] == "/app", config
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items()}
    assert LABELS <= set(labels), labels
    assert not {"unknown", "dev"} & set(labels.values()), labels
    layer = image.blob(parts["layers"][0])
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert [(file.name, file.mode, file.uid) for file in files] == FILES, files.getmembers()
        assert files.extractfile("sandbox-runtime").read() == binary.read_bytes()
    architecture, revision = manifest["platform"]["architecture"], labels["revision"][:12]
    print(f"image for {architecture}: version {labels['version']}, revision {revision}, {len(layer)} bytes")


def check_sbom(path):
    bom = json.loads(path.read_bytes())
    names = {component["name"] for component in bom["components"]}
    assert CRATES <= names, names
    assert all(component.get("licenses") and component.get("hashes") for component in bom["components"]), bom
    print(f"CycloneDX {bom['specVersion']}: {len(names)} crates, each with licence and checksum")


def main():
    release = pathlib.Path(sys.argv[1])
    (archive,) = release.glob("*.oci.tar")
    image = Image(archive)
    for manifest, machine in zip(image.manifests(), ("x86_64", "aarch64"), strict=True):
        check_image(image, manifest, release / f"sandbox-runtime-{machine}")
    (sbom,) = release.glob("*.cdx.json")
    check_sbom(sbom)


main()
