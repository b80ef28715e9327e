#!/usr/bin/env bash
# Builds the files of a release, reproducibly:   .ci/release.sh DIRECTORY [SOURCE-URL]
#   sandbox-runtime-MACHINE            the static binaries
#   sandbox-runtime-VERSION.oci.tar    the image (--target runtime) for both architectures, as an OCI archive
#   sandbox-runtime-VERSION.cdx.json   the SBOM (CycloneDX)
#   SHA256SUMS
# Builds the committed tree, HEAD. Uploads and signs nothing. Needs git, cargo, Docker and python3 >= 3.11.
set -euo pipefail

mkdir -p "${1:?usage: release.sh DIRECTORY [SOURCE-URL]}"
out=$(cd "$1" && pwd) source_url=${2:-unknown}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
MACHINES=(x86_64 aarch64)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

revision=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
git archive --prefix source/ HEAD | tar --directory "$work" --extract
target=${CARGO_TARGET_DIR:-$PWD/target}/release-build
cd "$work/source"
metadata=$work/metadata.json
cargo metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-musl >"$metadata"
version=$(python3 -c 'import json, sys
packages = json.load(open(sys.argv[1]))["packages"]
print(next(package["version"] for package in packages if package["name"] == "sandbox-runtime"))' "$metadata")

# Without the remapping, panic messages would contain paths of this machine. These flags are appended to those
# of .cargo/config.toml. RUSTFLAGS in the environment would replace those, and the binary would not be static.
unset RUSTFLAGS
flags="'--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo'"
flags+=", '--remap-path-prefix=$PWD=/source', '--remap-path-prefix=$target=/target'"
for machine in "${MACHINES[@]}"; do
    triple=$machine-unknown-linux-musl
    cargo build --quiet --locked --release --package sandbox-runtime --target "$triple" \
        --target-dir "$target" --config "target.$triple.rustflags = [$flags]"
    install -m 0555 "$target/$triple/release/sandbox-runtime" "$out/sandbox-runtime-$machine"
done

python=$(.ci/venv.sh sbom cyclonedx-python-lib==11.12.0)
"$python" .ci/sbom.py "$metadata" Cargo.lock "$revision" "$SOURCE_DATE_EPOCH" \
    >"$out/sandbox-runtime-$version.cdx.json"

python3 .ci/oci_image.py --epoch "$SOURCE_DATE_EPOCH" --output "$out/sandbox-runtime-$version.oci.tar" \
    --version "$version" --revision "$revision" --source "$source_url" \
    "${MACHINES[@]/#/$out/sandbox-runtime-}"
cd "$out"
sha256sum "${MACHINES[@]/#/sandbox-runtime-}" "sandbox-runtime-$version".* | tee SHA256SUMS
