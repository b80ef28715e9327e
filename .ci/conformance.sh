#!/usr/bin/env bash
# Checks a running server with one version of the Python SDK:   .ci/conformance.sh URL SDK-VERSION
set -euo pipefail

url=${1:?usage: conformance.sh URL SDK-VERSION} version=${2:?usage: conformance.sh URL SDK-VERSION}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$(.ci/venv.sh "sdk-$version" "k8s-agent-sandbox[async]==$version")
timeout 300 "$python" tests/conformance/sdk_contract.py "$url" --extras
