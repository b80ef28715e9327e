#!/usr/bin/env bash
# Checks the formatting and the language of all files, shell scripts and workflows:   .ci/lint.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=(.ci tests/conformance .ci/kind/fakes/kind .ci/kind/fakes/kubectl)
SHELL_SCRIPTS=(run-test-docker.sh run-test-kind.sh .ci/run .ci/*.sh .ci/kind/fakes/{curl,docker})

# Not `cargo fmt`, which does not see the modules that `protocols!` declares.
git ls-files -z '*.rs' | xargs -0 rustfmt --edition 2024 --check
RUST_LOG=warn taplo fmt --check
just --fmt --check
just --list >/dev/null
ruff format --quiet --check "${PYTHON[@]}"
ruff check --quiet "${PYTHON[@]}"
shellcheck "${SHELL_SCRIPTS[@]}"
typos
cargo shear --deny-warnings --locked
zizmor --offline --quiet .github
if command -v actionlint >/dev/null; then
    actionlint
else
    echo 'SKIPPED: actionlint (installed with Go, which is missing)'
fi
