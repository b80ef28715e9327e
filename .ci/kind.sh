#!/usr/bin/env bash
# Checks kind/ and run-test-kind.sh without a cluster:
#   .ci/kind.sh manifests              validates kind/*.yaml and evaluates its network policies
#   .ci/kind.sh script [SCENARIO...]   runs run-test-kind.sh against fakes of kind and kubectl
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PYTHONDONTWRITEBYTECODE=1 # keep the source tree clean
ID=sandbox-runtime-ci-kind-$$    # the images of this run

python=$(.ci/venv.sh kubernetes-validate kubernetes-validate==1.37.0)

# Applies each edit on standard input to a file of kind/. The check must report a failure, not crash.
detects() { # CHECK FILE OTHER-FILE...
    local directory edit report
    directory=$(mktemp --directory)
    while IFS= read -r edit; do
        sed "$edit" "kind/$2" >"$directory/$2"
        report=$("$python" ".ci/kind/$1" "$directory/$2" "${@:3}" || true)
        if cmp --quiet "$directory/$2" "kind/$2" || [[ $report != *FAIL* ]]; then
            echo "kind.sh: $1 did not detect in $2: $edit" >&2
            rm -r "$directory"
            exit 1
        fi
    done
    rm -r "$directory"
}

manifests() {
    local edits job jobs=()
    "$python" .ci/kind/manifests.py kind/*.yaml
    "$python" .ci/kind/policies.py kind/*.yaml
    detects manifests.py inject-init-container.yaml <<'END' & jobs+=($!)
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
    detects manifests.py sandbox-persistent.yaml <<'END' & jobs+=($!)
s/metadata: { name: workspace }/metadata: { name: work }/
s/accessModes:/accesModes:/
s/storage: 1Gi/storage: large/
s/volumeClaimTemplates:/volumeClaimTemplate:/
s/operatingMode: Running/operatingMode: Paused/
/fsGroup: 1000/d
END
    edits=$(
        cat <<'END'
/- namespaceSelector/{n;s/  podSelector/- podSelector/;}
s/namespaceSelector: {.*}/namespaceSelector: {}/
s/kubernetes.io\/metadata.name: agent-sandbox-system/kubernetes.io\/metadata.name: default/
/- namespaceSelector/{N;s/- namespaceSelector.*\n *podSelector/- podSelector/;}
/- namespaceSelector/{N;s/\n *podSelector.*//;}
/^ *- podSelector: { matchLabels: { app: sandbox-router/d
/^ *- podSelector: { matchLabels: { app.kubernetes.io\/name: sandbox-router/d
s/app: sandbox-router }/app: sandbox-rooter }/
s/- podSelector: { matchLabels: { app: sandbox-router } }/- podSelector: {}/
s/^\( *\)- podSelector: { matchLabels: { app: .*/\1- ipBlock: { cidr: 0.0.0.0\/0 }/
s/- from:/- from: []/;/^ *- podSelector/d;/- namespaceSelector/{N;d;}
/^ *ports:$/{N;/protocol/d;}
s/port: 8888 }/port: 8888, endPort: 9000 }/
s/port: 8888 }/port: 8889 }/
s/{ protocol: TCP, port: 8888 }/{ protocol: TCP }/
s/protocol: TCP, port: 8888/protocol: UDP, port: 8888/
END
    )
    detects policies.py networkpolicy.yaml kind/sandbox.yaml <<END & jobs+=($!)
$edits
s/^  # To allow .*/  egress: [{}]/
s/^  # To allow .*/  egress: [{ ports: [{ protocol: UDP, port: 53 }] }]/
s/policyTypes: .*/policyTypes: [Ingress]/
/policyTypes:/d
s/name: sandbox-runtime }/name: sandbox }/
s/  #           except: .*10.0.0.0\/8, /  #           except: [/
END
    detects policies.py template.yaml kind/sandbox.yaml <<END & jobs+=($!)
$edits
s/^    # No egress rules.*/    egress: [{}]/
s/^    # No egress rules.*/    egress: [{ to: [{ namespaceSelector: {} }] }]/
s/networkPolicyManagement: Managed/networkPolicyManagement: Unmanaged/
s/  networkPolicy:/  networkPolice:/
END
    if [ -e kind/tester.yaml ]; then
        detects policies.py tester.yaml kind/sandbox.yaml kind/networkpolicy.yaml <<'END' & jobs+=($!)
s/sandbox-router/sandbox-tester/
END
    fi
    for job in "${jobs[@]}"; do wait "$job"; done
    echo 'every broken file was detected'
}

script() {
    trap 'docker rmi --force "$ID:toolbox" "$ID:python" >/dev/null 2>&1 || true' EXIT
    .ci/toolbox-image.sh "$ID:toolbox"
    .ci/python-image.sh "$ID:python" 2>/dev/null
    "$python" .ci/kind/scenarios.py "$ID:toolbox" "$ID:python" "$@"
}

"$@"
