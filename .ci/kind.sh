#!/usr/bin/env bash
# Checks kind/ and run-test-kind.sh without a cluster:
#   .ci/kind.sh manifests              validates kind/*.yaml
#   .ci/kind.sh script [SCENARIO...]   runs run-test-kind.sh against fakes of kind and kubectl
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PYTHONDONTWRITEBYTECODE=1 # keep the source tree clean
ID=sandbox-runtime-ci-kind-$$    # the images of this run

python=$(.ci/venv.sh kubernetes-validate kubernetes-validate==1.37.0)

manifests() {
    local broken
    "$python" .ci/kind/manifests.py kind/*.yaml

    # Each edit breaks a valid file, and the checks must detect it.
    broken=$(mktemp --suffix .yaml)
    while IFS= read -r edit; do
        sed "$edit" kind/inject-init-container.yaml >"$broken"
        if cmp --quiet "$broken" kind/inject-init-container.yaml ||
            "$python" .ci/kind/manifests.py "$broken" >/dev/null; then
            echo "kind.sh: not detected: $edit" >&2
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
s/podTemplate:/podTemplates:/
END
    rm "$broken"
    echo 'every broken file was detected'
}

script() {
    trap 'docker rmi --force "$ID:toolbox" "$ID:python" >/dev/null 2>&1 || true' EXIT
    .ci/toolbox-image.sh "$ID:toolbox"
    .ci/python-image.sh "$ID:python" 2>/dev/null
    "$python" .ci/kind/scenarios.py "$ID:toolbox" "$ID:python" "$@"
}

"$@"
