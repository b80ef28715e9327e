#!/usr/bin/env bash
# Runs each fuzz target for SECONDS, two at a time, starting with its seeds:   .ci/fuzz.sh SECONDS [TARGET...]
# Needs a nightly toolchain. The corpus stays in target/fuzz/corpus for later runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export FUZZ_SECONDS=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
[ $# != 0 ] || set -- fuzz/seeds/*
export OUT=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
HOST=$(rustc --print host-tuple)
export BINARIES=$OUT/$HOST/release

command -v cargo-fuzz >/dev/null || .ci/tools.sh cargo
cargo +nightly fuzz build --target-dir "$OUT"

run() { # TARGET
    local target corpus seed number=0 arguments=()
    target=$(basename "$1")
    corpus=$OUT/corpus/$target
    mkdir -p "$corpus"
    # One seed per line, with printf escapes.
    while IFS= read -r seed; do
        number=$((number + 1))
        printf '%b' "$seed" >"$corpus/seed-$number"
    done <"fuzz/seeds/$target"
    [ ! -e "fuzz/dictionaries/$target" ] || arguments=("-dict=fuzz/dictionaries/$target")
    if ! "$BINARIES/$target" "$corpus" "${arguments[@]}" -max_total_time="$FUZZ_SECONDS" -timeout=60 \
        -artifact_prefix="$OUT/$target-" -verbosity=0 -print_final_stats=1 >"$OUT/$target.log" 2>&1; then
        tail -n 60 "$OUT/$target.log"
        echo "fuzz.sh: $target failed"
        return 1
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$OUT/$target.log") executions"
}
export -f run
printf '%s\n' "$@" | xargs --max-procs 2 -I TARGET bash -c 'run TARGET'
