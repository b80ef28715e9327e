#!/usr/bin/env bash
# Checks that two releases, built in different directories with different cargo homes, are identical, and that
# they contain the image that the Dockerfile describes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

SOURCE_URL=https://example.org/sandbox-runtime
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$PWD
home=${CARGO_HOME:-$HOME/.cargo}

CARGO_TARGET_DIR=$work/target-1 .ci/release.sh "$work/release-1" "$SOURCE_URL"
git clone --quiet "$here" "$work/another directory"
mkdir "$work/cargo"
for file in registry config.toml; do [ ! -e "$home/$file" ] || ln -s "$home/$file" "$work/cargo/$file"; done
(
    cd "$work/another directory"
    export CARGO_HOME=$work/cargo CARGO_TARGET_DIR=$work/target-2
    .ci/release.sh "$work/release-2" "$SOURCE_URL" >/dev/null
)
diff --recursive "$work/release-1" "$work/release-2"
echo 'both releases are identical'

.ci/binary.sh "$work/release-1/sandbox-runtime-x86_64" X86-64
.ci/binary.sh "$work/release-1/sandbox-runtime-aarch64" AArch64
python3 .ci/check_release.py "$work/release-1"
