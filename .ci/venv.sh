#!/usr/bin/env bash
# A virtual environment with these packages of PyPI, kept between runs; prints its python:   .ci/venv.sh NAME REQUIREMENT...
set -euo pipefail

venv=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sandbox-runtime-ci/${1:?usage: venv.sh NAME REQUIREMENT...}
shift
# It is there when it was made to its end, for the same packages and the same Python.
wanted="$(python3 --version) $*"

if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$wanted" ]; then
    echo "installing $*" >&2
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet "$@" >&2
    echo "$wanted" >"$venv/made-for"
fi
echo "$venv/bin/python"
