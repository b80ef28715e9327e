#!/usr/bin/env bash
# Runs the container tests (tests/box) on the runtime image:
#   .ci/box.sh IMAGE [--runtime NAME] [TEST-ARGUMENT...]
set -euo pipefail

USAGE='usage: box.sh IMAGE [--runtime NAME] [TEST-ARGUMENT...]'
image=${1:?$USAGE}
shift
if [ "${1:-}" = --runtime ]; then
    export SANDBOX_BOX_RUNTIME=${2:?$USAGE}
    shift 2
fi
ID=sandbox-runtime-box-$$ # the runtime image plus the test program
WORK=$(mktemp -d)

cleanup() {
    local containers
    containers=$(docker ps --all --quiet --filter "label=sandbox-runtime-box=$ID")
    # shellcheck disable=SC2086 # one argument per container
    [ -z "$containers" ] || docker rm --force --volumes $containers >/dev/null 2>&1 || true
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
