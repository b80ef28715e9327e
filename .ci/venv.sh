#!/usr/bin/env bash
# Creates a virtual environment, kept between runs, and prints its python:   .ci/venv.sh NAME PIP-ARGUMENT...
set -euo pipefail

venv=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sandbox-runtime-ci/${1:?usage: venv.sh NAME PIP-ARGUMENT...}
shift
wanted="$(python3 --version) $*"
for argument; do
    [ ! -f "$argument" ] || wanted+=" $(sha256sum "$argument")"
done

# The stamp is written last, so that an interrupted installation is repeated.
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
    echo "installing $*" >&2
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --no-compile "$@" >&2
    echo "$wanted" >"$venv/installed"
fi
echo "$venv/bin/python"
