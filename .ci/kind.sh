#!/usr/bin/env bash
# kind/ and run-test-kind.sh, as far as they can be checked without a cluster:   .ci/kind.sh manifests|script [SCENARIO...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DEFINITIONS=../shared/k8s/crds
SDK_CONTRACT=../shared/conformance/sdk_contract.py
export PYTHONDONTWRITEBYTECODE=1 # nothing is left in the source tree
ID=sandbox-runtime-ci-kind-$$ # the images of this run

python=$(.ci/venv.sh kubernetes-validate kubernetes-validate==1.37.0)

manifests() {
    local options=() broken
    if [ -d "$DEFINITIONS" ]; then
        options=(--definitions "$DEFINITIONS")
    else
        echo "SKIPPED: $DEFINITIONS is not here, so that only the pods in agent-sandbox's objects are checked"
    fi
    "$python" .ci/kind/manifests.py "${options[@]}" kind/*.yaml

    # That the check can fail: each of these makes a good file a bad one.
    broken=$(mktemp --suffix .yaml)
    while IFS= read -r edit; do
        sed "$edit" kind/inject-init-container.yaml >"$broken"
        if cmp --quiet "$broken" kind/inject-init-container.yaml ||
            "$python" .ci/kind/manifests.py "${options[@]}" "$broken" >/dev/null; then
            echo "kind.sh: it went unnoticed: $edit" >&2
            rm "$broken"
            exit 1
        fi
    done <<'END'
s/runAsNonRoot: true/runAsNonRoot: false/
s/runAsUser: 1000/runAsUser: 0/
s/runAsGroup:/runAsGruop:/
s/drop: \[ALL\]/drop: [NET_RAW]/
s/allowPrivilegeEscalation: false/allowPrivilegeEscalation: true/
s/readOnlyRootFilesystem: true/readOnlyRootFilesystem: false/
s/type: RuntimeDefault/type: Unconfined/
s/containerPort: 8888/containerPort: eight/
s/emptyDir: { sizeLimit: 1Gi }/hostPath: { path: \/ }/
s/emptyDir: { sizeLimit: 1Gi }/emptyDir: {}/
s/livenessProbe:/livelinessProbe:/
s/automountServiceAccountToken: false/automountServiceAccountToken: true/
END
    rm "$broken"
    echo 'each of the broken ones was noticed'
}

script() {
    trap 'docker rmi --force "$ID:toolbox" "$ID:python" >/dev/null 2>&1 || true' EXIT
    .ci/toolbox-image.sh "$ID:toolbox"
    .ci/python-image.sh "$ID:python" 2>/dev/null
    [ -e "$SDK_CONTRACT" ] || SDK_CONTRACT=''
    "$python" .ci/kind/scenarios.py "$ID:toolbox" "$ID:python" "$SDK_CONTRACT" "$@"
}

"$@"
