#!/usr/bin/env bash
# Runs everything that depends on the kernel in gVisor instead of Linux:   .ci/gvisor.sh SDK-VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sdk=${1:?usage: gvisor.sh SDK-VERSION}
# Without the shims of version managers, which are shell scripts and slow there.
DO='runsc --network=none --ignore-cgroups do env PATH=/usr/local/bin:/usr/bin:/bin'
GRACE=5 # seconds
name='' log=$(mktemp)
cleanup() {
    rm -f "$log"
    if [ -n "$name" ]; then
        docker rm --force --volumes "$name" >/dev/null 2>&1 || true
        docker rmi --force "$name:default" "$name:runtime" >/dev/null 2>&1 || true
    fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo '-- the tester'
./run-test-docker.sh --runtime runsc --keep | tee "$log"
read -r _ name address < <(tail -n 1 "$log")

echo '-- health check'
docker exec "$name" /sandbox-runtime healthcheck

echo "-- the Python SDK $sdk"
.ci/conformance.sh "http://$address" "$sdk"

echo '-- container tests'
SANDBOX_BOX_SOAK_SECONDS=${SANDBOX_BOX_SOAK_SECONDS:-10} .ci/box.sh "$name:runtime" --runtime runsc

echo '-- escapes'
# runsc writes to a file at an offset of its own, over the output of others.
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$DO cargo test --locked --test it -- \
    --test-threads 1 nothing_survives | cat

echo '-- stop'
started=$SECONDS
docker stop --time "$GRACE" "$name" >/dev/null
code=$(docker inspect --format '{{.State.ExitCode}}' "$name")
echo "exit code $code after $((SECONDS - started)) s"
[ "$code" = 0 ] && [ "$((SECONDS - started))" -lt "$GRACE" ]
