#!/usr/bin/env bash
# The real Python SDK against a running server:   .ci/conformance.sh SCRIPT URL SDK-VERSION
set -euo pipefail

script=${1:?} url=${2:?} version=${3:?}
# Cases that may FAIL or LACK, by the script's names for them, each with the reason.
KNOWN=(
    # Output is bytes here: CR and CRLF stay. The reference folds line ends.
    'direct: run translates CRLF and CR to LF (python text mode)'
)
LOG=$(mktemp)
trap 'rm -f "$LOG"' EXIT

python=$("$(dirname "${BASH_SOURCE[0]}")/venv.sh" "sdk-$version" "k8s-agent-sandbox[async]==$version")

# Its exit status cannot know what is meant, so what it prints decides; its last line says that it got to the end.
timeout 300 "$python" "$script" "$url" --extras 2>&1 | tee "$LOG" || true
tail -n 1 "$LOG" | grep -q '^---- PASS [1-9]' || {
    echo "conformance.sh: SDK $version: the script did not get to its end" >&2
    exit 1
}
sed -nE 's/^(FAIL|LACK)  //p' "$LOG" | sed 's/   \[.*//' | while read -r name; do
    printf '%s\n' "${KNOWN[@]}" | grep -qxF -- "$name" || {
        echo "conformance.sh: SDK $version: $name" >&2
        exit 1
    }
    echo "known: $name"
done
