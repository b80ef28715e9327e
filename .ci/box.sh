#!/usr/bin/env bash
# The runtime image under attack, in containers of its own:   .ci/box.sh IMAGE [WORD...]
# where IMAGE is the runtime image; the words choose among the tests.
set -euo pipefail

image=${1:?usage: box.sh IMAGE [WORD...]}
shift
ID=sandbox-runtime-box-$$ # the image with our test program in it
WORK=$(mktemp -d)

cleanup() {
    local left
    left=$(docker ps --all --quiet --filter "label=sandbox-runtime-box=$ID")
    # shellcheck disable=SC2086 # one word a container
    [ -z "$left" ] || docker rm --force --volumes $left >/dev/null 2>&1 || true
    docker rmi --force "$ID" >/dev/null 2>&1 || true
    rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cargo build --locked --release --package probe --target x86_64-unknown-linux-musl
install -m 0555 "${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-musl/release/probe" "$WORK/probe"
printf 'FROM %s\nCOPY probe /probe\n' "$image" >"$WORK/Dockerfile"
docker build --quiet --tag "$ID" "$WORK" >/dev/null
SANDBOX_BOX_IMAGE=$ID cargo test --locked --test box -- --ignored "$@"
