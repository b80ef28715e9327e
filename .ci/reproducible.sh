#!/usr/bin/env bash
# Two releases, from different directories and with different homes of cargo, are the same bytes; and the image is the one
# that the Dockerfile describes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$PWD
home=${CARGO_HOME:-$HOME/.cargo}

CARGO_TARGET_DIR=$work/here .ci/release.sh "$work/one" https://example.org/sandbox-runtime
git clone --quiet "$here" "$work/another place"
mkdir "$work/cargo"
for file in registry config.toml; do [ ! -e "$home/$file" ] || ln -s "$home/$file" "$work/cargo/$file"; done
(
    cd "$work/another place"
    CARGO_HOME=$work/cargo CARGO_TARGET_DIR=$work/there .ci/release.sh "$work/two" https://example.org/sandbox-runtime >/dev/null
)
diff --recursive "$work/one" "$work/two"
echo 'both are the same'

.ci/binary.sh "$work/one/sandbox-runtime-x86_64" X86-64
.ci/binary.sh "$work/one/sandbox-runtime-aarch64" AArch64
mkdir "$work/image"
tar --directory "$work/image" --extract --file "$work/one/"*.oci.tar
python3 - "$work/image" "$work/one" <<'END'
import glob, json, pathlib, sys, tarfile
image, release = map(pathlib.Path, sys.argv[1:])
blob = lambda descriptor: image / "blobs" / descriptor["digest"].replace(":", "/")
load = lambda descriptor: json.loads(blob(descriptor).read_bytes())
index = load(json.loads((image / "index.json").read_bytes())["manifests"][0])
for manifest, machine in zip(index["manifests"], ("x86_64", "aarch64"), strict=True):
    parts = load(manifest)
    config = load(parts["config"])["config"]
    assert (config["User"], config["Entrypoint"], config["WorkingDir"]) == ("1000:1000", ["/sandbox-runtime"], "/app"), config
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items()}
    assert {"title", "description", "licenses", "version", "revision", "source", "created"} <= set(labels), labels
    assert "unknown" not in labels.values() and "dev" not in labels.values(), labels
    with tarfile.open(blob(parts["layers"][0])) as layer:
        files = [(file.name, oct(file.mode), file.uid) for file in layer]
        assert files == [("app", "0o755", 1000), ("sandbox-runtime", "0o555", 0)], files
        binary = layer.extractfile("sandbox-runtime").read()
    assert binary == (release / f"sandbox-runtime-{machine}").read_bytes()
    print(f"image for {manifest['platform']['architecture']}: {labels['version']} of {labels['revision'][:12]}, {blob(parts['layers'][0]).stat().st_size} bytes")
bom = json.loads(pathlib.Path(*glob.glob(f"{release}/*.cdx.json")).read_bytes())
names = {component["name"] for component in bom["components"]}
assert {"getrandom", "httparse", "libc", "serde", "serde_json", "signal-hook"} <= names, names
print(f"CycloneDX {bom['specVersion']}: {len(names)} crates, each with licence and checksum:",
      all(component.get("licenses") and component.get("hashes") for component in bom["components"]))
END
