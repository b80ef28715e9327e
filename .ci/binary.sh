#!/usr/bin/env bash
# Checks that a binary is static, for one architecture and small:   .ci/binary.sh FILE MACHINE
set -euo pipefail

file=${1:?usage: binary.sh FILE MACHINE} machine=${2:?usage: binary.sh FILE MACHINE}
LIMIT=$((1024 * 1024)) # bytes; the runtime image contains nothing else
fail() {
    echo "binary.sh: $file $*" >&2
    exit 1
}

header=$(readelf --file-header --wide "$file")
segments=$(readelf --program-headers --wide "$file")
dynamic=$(readelf --dynamic --wide "$file")
[[ $header == *"$machine"* ]] || fail "is not for $machine"
[[ $segments == *LOAD* ]] || fail 'has no LOAD segment'
[[ $segments != *INTERP* ]] || fail 'has an interpreter'
[[ $dynamic == *'no dynamic section'* ]] || fail 'has a dynamic section'
size=$(stat --format %s "$file")
[ "$size" -lt "$LIMIT" ] || fail "has $size bytes; the limit is $LIMIT"
echo "$file: static, $machine, $size bytes"
