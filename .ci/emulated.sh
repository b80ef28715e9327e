#!/usr/bin/env bash
# Runs the tester against the aarch64 binary under qemu's user-mode emulation:   .ci/emulated.sh BINARY
set -euo pipefail

binary=${1:?usage: emulated.sh BINARY} work=$(mktemp -d) server=''
emulator=qemu-aarch64-static
cleanup() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

"$emulator" "$binary" --version
"$emulator" "$binary" install "$work"
cmp "$binary" "$work/sandbox-runtime"

mkdir "$work/base"
# `serve` runs without the init process: qemu 7.2 does not emulate prctl(PR_SET_CHILD_SUBREAPER).
# Programs that commands start are not emulated.
"$emulator" "$binary" serve --base-dir "$work/base" --listen 127.0.0.1:0 2>"$work/log" &
server=$!
deadline=$((SECONDS + 30)) address=''
until [ -n "$address" ]; do
    [ "$SECONDS" -lt "$deadline" ] || { cat "$work/log" >&2 && exit 1; }
    sleep 0.1
    address=$(sed -n 's|.*listening on http://127.0.0.1:\([0-9]*\),.*|\1|p' "$work/log")
done
"$emulator" "$binary" healthcheck --listen "127.0.0.1:$address"
cargo run --quiet --locked --package tester -- 127.0.0.1 "$address"
