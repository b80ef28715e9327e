#!/usr/bin/env bash
# Tests the image on a real cluster: creates a kind cluster, installs the agent-sandbox controller, loads
# the image, applies kind/, runs the tester against the sandbox, claims another sandbox from a warm pool
# and removes everything. Needs Docker, kind, kubectl and curl.
set -euo pipefail

# The checksum of the controller's manifest is not pinned yet. Each run prints the one it downloaded.
CONTROLLER_VERSION=v0.5.6
CONTROLLER_URL=https://github.com/kubernetes-sigs/agent-sandbox/releases/download/$CONTROLLER_VERSION
CONTROLLER_URL+=/sandbox-with-extensions.yaml
CONTROLLER_SHA256=''
CONTROLLER_NAMESPACE=agent-sandbox-system
CONTROLLER=deployment/agent-sandbox-controller
CRDS=(
    customresourcedefinition/sandboxes.agents.x-k8s.io
    customresourcedefinition/sandboxclaims.extensions.agents.x-k8s.io
    customresourcedefinition/sandboxtemplates.extensions.agents.x-k8s.io
    customresourcedefinition/sandboxwarmpools.extensions.agents.x-k8s.io
)
# Fully qualified names: another API in the cluster may define a "sandbox" too.
SANDBOX=sandboxes.agents.x-k8s.io
CLAIM=sandboxclaims.extensions.agents.x-k8s.io
POOL=sandboxwarmpools.extensions.agents.x-k8s.io
SDK_VERSION=1.0.8
NAMESPACE=sandbox-runtime-test # reserved for this script, which deletes it

CALLER_DIRECTORY=$PWD
# Defines say, fail, run, quietly, discard, prepare, build_all and parse_options.
# shellcheck source=run-test-docker.sh
. "$(dirname "${BASH_SOURCE[0]}")/run-test-docker.sh"

usage() {
    cat <<END
usage: run-test-kind.sh [--cluster NAME] [--keep] [--inject] [--timeout SECONDS] [--controller FILE]
                        [--toolbox IMAGE] [--builder IMAGE]

  --cluster NAME    the cluster (default: $cluster); an existing one is used and kept,
                    otherwise the script creates and deletes it
  --keep            keep the cluster and the claimed sandbox and print how to reach them
  --inject          also inject the runtime into an unmodified image (kind/inject-*.yaml; the node pulls it)
  --timeout SECONDS timeout of each wait (default: $timeout)
  --controller FILE manifest of the controller (default: download $CONTROLLER_VERSION)
  --toolbox IMAGE   see run-test-docker.sh
  --builder IMAGE   see run-test-docker.sh
  --help            print this help

SKIP_SDK=yes in the environment skips the checks of the Python SDK.
Exit status: 0 passed; 1 failed; 64 invalid option; 69 missing prerequisite; 128+N signal N.
END
}

SWITCHES=(keep inject) VALUED=(cluster timeout controller toolbox builder)
cluster=sandbox-runtime-test timeout=180 inject='' controller=''
created='' network='' installed='' applied='' loaded=() # for cleanup
forwarder='' port='' pod=''

cleanup() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT
    stop_child
    case $status in
    0 | 129 | 130 | 143) ;;
    *)
        save_diagnostics
        [ -z "$applied" ] || kept=$keep
        ;;
    esac
    stop_forwarding
    if [ -z "$kept" ]; then
        say 'cleaning up'
        if [ -n "$created" ]; then delete_cluster; else clean_cluster; fi
    fi
    discard rmi --force "$ID:default" "$ID:runtime" "$ID:toolbox"
    [ -z "$WORK" ] || rm -rf "$WORK"
    [ -z "$kept" ] || explain
    exit "$status"
}

delete_cluster() {
    local node
    run kind delete cluster --name "$cluster" --kubeconfig "$WORK/kubeconfig" >/dev/null 2>&1 || true
    # An interrupted `kind create` may leave a node that `kind delete` does not find.
    for node in $(docker ps --all --quiet --filter "label=io.x-k8s.kind.cluster=$cluster"); do
        discard rm --force --volumes "$node"
    done
    [ -z "$network" ] || discard network rm kind
}

# Removes the objects and images of this run from a cluster that stays.
clean_cluster() {
    local node image
    [ -z "$applied" ] || delete kube namespace "$NAMESPACE"
    [ -z "$installed" ] || delete kube_anywhere --filename "$WORK/controller.yaml"
    [ ${#loaded[@]} != 0 ] || return 0
    for node in $(kind get nodes --name "$cluster" 2>/dev/null); do
        for image in "${loaded[@]}"; do discard exec "$node" crictl rmi "docker.io/library/$image"; done
    done
}

delete() { # KUBE ARGUMENT...
    "$1" delete --ignore-not-found --timeout=90s "${@:2}" >/dev/null 2>&1 || true
}

# Never reads the user's own kubeconfig or its current context.
kube() { kube_anywhere --namespace "$NAMESPACE" "$@"; }
# For the controller's manifest: kubectl rejects objects that are not in the namespace of --namespace.
kube_anywhere() { kubectl --kubeconfig "$WORK/kubeconfig" --context "kind-$cluster" "$@"; }

# Like `quietly`, for steps that can be interrupted at any time.
hushed() {
    local status=0
    run "$@" >"$WORK/output" 2>&1 || status=$?
    [ "$status" = 0 ] || cat "$WORK/output" >&2
    return "$status"
}

save_diagnostics() {
    local directory ours=(--selector app.kubernetes.io/name=sandbox-runtime --all-containers --prefix)
    [ -n "$applied$installed" ] || return 0
    directory=$(mktemp -d "${TMPDIR:-/tmp}/run-test-kind.XXXXXX")
    save() { # FILE ARGUMENT...
        kube --request-timeout=20s "${@:2}" >"$directory/$1" 2>&1 || true
    }
    save objects.yaml get --output yaml "$SANDBOX,$CLAIM,$POOL,pods,networkpolicies"
    save describe.txt describe "$SANDBOX,$CLAIM,$POOL,pods"
    save events.txt get events --sort-by=.lastTimestamp
    save log.txt logs "${ours[@]}" --tail=200
    save previous-log.txt logs "${ours[@]}" --previous
    save controller-log.txt logs --namespace "$CONTROLLER_NAMESPACE" "$CONTROLLER" --tail=500
    save nodes.txt describe nodes
    [ ! -e "$WORK/forward" ] || cp "$WORK/forward" "$directory/port-forward.txt"
    say "diagnostics saved to $directory"
}

check_cluster_tools() {
    local tool
    for tool in 'kind (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)' \
        'kubectl (https://kubernetes.io/docs/tasks/tools)' 'curl (Debian: apt-get install curl)'; do
        command -v "${tool%% *}" >/dev/null || missing+=("$tool")
    done
    check_tools
}

create_cluster() {
    if kind get clusters 2>/dev/null | grep -qxF -- "$cluster"; then
        say "using the existing cluster $cluster"
        run kind export kubeconfig --name "$cluster" --kubeconfig "$WORK/kubeconfig" >/dev/null 2>&1 ||
            fail "cannot export the kubeconfig; to delete the cluster: kind delete cluster --name $cluster"
    else
        say "creating the cluster $cluster"
        docker network inspect kind >/dev/null 2>&1 || network=new
        created=yes
        run kind create cluster --name "$cluster" --kubeconfig "$WORK/kubeconfig" --wait "${timeout}s" \
            >"$WORK/output" 2>&1 || { cat "$WORK/output" >&2 && fail 'kind could not create the cluster'; }
    fi
    retry 'the API server does not respond' kube get --raw /readyz
}

retry() { # MESSAGE COMMAND...
    local deadline=$((SECONDS + timeout)) message=$1
    shift
    until run "$@" >"$WORK/output" 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { cat "$WORK/output" >&2 && fail "$message (waited $timeout s)"; }
        run sleep 0.5
    done
}

# `kind load docker-image` fails with engines that store images in containerd. An archive works with both.
load() { # IMAGE
    say "loading $1 into the cluster"
    loaded+=("$1")
    run kind load docker-image "$1" --name "$cluster" >"$WORK/output" 2>&1 && return
    say 'kind cannot load it from the engine; loading it as an archive'
    hushed docker save --output "$WORK/image.tar" "$1"
    hushed kind load image-archive "$WORK/image.tar" --name "$cluster"
}

install_controller() {
    if run kube get "${CRDS[0]}" >/dev/null 2>&1; then
        say 'using the existing controller'
        return
    fi
    fetch_controller
    say 'installing the controller'
    installed=yes
    # Server-side: these CRDs exceed the size limit of the annotation of a client-side apply.
    hushed kube_anywhere apply --server-side --force-conflicts --filename "$WORK/controller.yaml"
    hushed kube wait --for=condition=Established --timeout="${timeout}s" "${CRDS[@]}"
    hushed kube rollout status --namespace "$CONTROLLER_NAMESPACE" "$CONTROLLER" --timeout="${timeout}s"
}

fetch_controller() {
    local sum
    if [ -n "$controller" ]; then
        cp -- "$controller" "$WORK/controller.yaml"
        return
    fi
    say "downloading the controller $CONTROLLER_VERSION"
    run curl --fail --silent --show-error --location --retry 3 --max-time "$timeout" \
        --output "$WORK/controller.yaml" "$CONTROLLER_URL" || fail "cannot download $CONTROLLER_URL"
    read -r sum _ < <(sha256sum "$WORK/controller.yaml")
    if [ -z "$CONTROLLER_SHA256" ]; then
        say "NOT VERIFIED: no checksum is pinned for $CONTROLLER_VERSION; SHA-256 of the download: $sum"
    elif [ "$sum" != "$CONTROLLER_SHA256" ]; then
        fail "$CONTROLLER_URL: expected SHA-256 $CONTROLLER_SHA256, got $sum"
    fi
}

# Writes kind/FILE with the image and the namespace of this run.
manifest() { # FILE IMAGE
    sed -E -e "s#(image|reference): sandbox-runtime:[^ ]*#\\1: $2#" \
        -e "s|^  name: sandboxes$|  name: $NAMESPACE|" "kind/$1" >"$WORK/$1"
}
apply() { # FILE [IMAGE]
    manifest "$1" "${2:-$ID:default}"
    hushed kube apply --server-side --force-conflicts --filename "$WORK/$1"
}

api_accepts_manifests() {
    local file
    for file in sandbox.yaml template.yaml warmpool.yaml claim.yaml; do
        manifest "$file" "$ID:default"
        kube apply --server-side --force-conflicts --dry-run=server --filename "$WORK/$file" || return
    done
}

prepare_namespace() {
    say "creating the namespace $NAMESPACE, which accepts restricted pods only"
    applied=yes
    apply namespace.yaml
    # The conversion webhook starts to respond some time after its rollout is complete.
    retry 'the API does not accept a sandbox' api_accepts_manifests
    apply networkpolicy.yaml
}

# Deletes a Sandbox of an earlier run first: its pod would keep the old image.
start_sandbox() { # NAME FILE [IMAGE]
    say "starting the sandbox $1"
    hushed kube delete "$SANDBOX/$1" --ignore-not-found --cascade=foreground --timeout="${timeout}s"
    apply "${@:2}"
    ready "$SANDBOX/$1"
}

ready() { # OBJECT
    hushed kube wait --for=condition=Ready --timeout="${timeout}s" "$1" || fail "$1 is not ready"
    say "$1 is ready"
}

field() { kube --request-timeout=30s get "$1" --output "jsonpath={$2}"; } # OBJECT PATH

pod_of() { # SANDBOX-NAME
    local selector
    selector=$(field "$SANDBOX/$1" .status.selector)
    [ -n "$selector" ] || fail "the sandbox $1 has no pod selector"
    kube --request-timeout=30s get pods --selector "$selector" --output 'jsonpath={.items[0].metadata.name}'
}

# Sets $port, a free port that kubectl chooses.
forward() { # POD
    local deadline=$((SECONDS + timeout))
    stop_forwarding
    set -m
    kubectl --kubeconfig "$WORK/kubeconfig" --context "kind-$cluster" --namespace "$NAMESPACE" \
        port-forward --address 127.0.0.1 "pod/$1" :8888 >"$WORK/forward" 2>&1 </dev/null &
    forwarder=$!
    set +m
    port=''
    until [ -n "$port" ]; do
        still_forwarding
        [ "$SECONDS" -lt "$deadline" ] || fail "kubectl port-forward printed no port (waited $timeout s)"
        run sleep 0.1
        port=$(sed -n 's/^Forwarding from 127\.0\.0\.1:\([0-9]*\) -> .*/\1/p' "$WORK/forward")
    done
    until run curl --fail --silent --max-time 5 "http://127.0.0.1:$port/" >/dev/null; do
        still_forwarding
        [ "$SECONDS" -lt "$deadline" ] || fail "no response through the port-forward (waited $timeout s)"
        run sleep 0.5
    done
}
still_forwarding() {
    kill -0 "$forwarder" 2>/dev/null && return
    cat "$WORK/forward" >&2
    fail 'the port-forward ended unexpectedly'
}
stop_forwarding() {
    [ -n "$forwarder" ] || return 0
    kill -TERM -- "-$forwarder" 2>/dev/null || true
    wait "$forwarder" 2>/dev/null || true
    forwarder=''
}

test_sandbox() {
    say "running the tester against 127.0.0.1:$port"
    if [ -z "$builder" ]; then
        run cargo run --quiet --locked --target-dir "${CARGO_TARGET_DIR:-target}" --package tester -- \
            127.0.0.1 "$port"
    else
        run docker run --rm --name "$ID-build" --network host --volume "$ROOT:/source:ro" \
            "$builder" "/source/target/builder/$TARGET/release/tester" 127.0.0.1 "$port"
    fi || {
        run sleep 2 # a kubectl that has lost the pod takes a moment to exit
        still_forwarding
        fail 'tester failed'
    }
    still_forwarding
}

test_sdk() {
    if [ -n "${SKIP_SDK:-}" ]; then
        say 'SKIPPED: the Python SDK (SKIP_SDK is set)'
    elif ! python3 -m venv --help >/dev/null 2>&1; then
        say 'SKIPPED: the Python SDK (python3 with venv is missing)'
    else
        say "running the checks of the Python SDK $SDK_VERSION"
        TMPDIR=$WORK hushed .ci/conformance.sh "http://127.0.0.1:$port" "$SDK_VERSION" ||
            fail 'SDK checks failed'
    fi
}

# Runs COMMAND, which must print exactly LINE.
execute() { # COMMAND LINE
    local response
    response=$(curl --fail --silent --show-error --max-time 30 --header 'Content-Type: application/json' \
        --data "{\"command\": \"$1\"}" "http://127.0.0.1:$port/execute") || fail "$1: no response"
    [ "$response" = "{\"stdout\":\"$2\\n\",\"stderr\":\"\",\"exit_code\":0}" ] || fail "$1: $response"
}

never_restarted() { # POD
    local restarts
    restarts=$(field "pod/$1" '.status.containerStatuses[*].restartCount')
    [ "$restarts" = 0 ] || fail "the sandbox was restarted $restarts times"
    say 'no restarts'
}

# A runtime that ignores SIGTERM is killed at the end of the grace period.
terminates_in_time() { # SANDBOX-NAME POD
    local grace seconds start=$SECONDS
    grace=$(field "pod/$2" .spec.terminationGracePeriodSeconds)
    stop_forwarding
    hushed kube delete "$SANDBOX/$1" --cascade=foreground --timeout="${timeout}s"
    hushed kube wait --for=delete "pod/$2" --timeout="${timeout}s"
    seconds=$((SECONDS - start))
    [ "$seconds" -lt $((grace / 2)) ] || fail "deletion took $seconds s; the grace period is $grace s"
    say "deleted in $seconds s; the grace period is $grace s"
}

claim() {
    local start name
    say 'filling a warm pool'
    hushed kube delete "$CLAIM/sandbox-runtime" --ignore-not-found --timeout="${timeout}s"
    apply template.yaml
    apply warmpool.yaml
    hushed kube wait --for=jsonpath='{.status.readyReplicas}'=2 --timeout="${timeout}s" \
        "$POOL/sandbox-runtime" || fail 'the warm pool is not ready'
    say 'claiming a sandbox'
    start=$(microseconds)
    apply claim.yaml
    ready "$CLAIM/sandbox-runtime"
    name=$(field "$CLAIM/sandbox-runtime" .status.sandbox.name)
    pod=$(pod_of "$name")
    forward "$pod"
    execute 'echo claimed' claimed
    say "claim to first output: $((($(microseconds) - start) / 1000)) ms, including the port-forward"
}
microseconds() {
    local now=${EPOCHREALTIME:-$SECONDS.000000} # bash 4 has whole seconds only
    echo "${now/[.,]/}"
}

inject_runtime() {
    local name file minor
    minor=$(kube get --raw /version | sed -n 's/.*"minor": *"\([0-9]*\).*/\1/p')
    for name in injected-by-init-container injected-by-image-volume; do
        file=${name/injected-by/inject}.yaml
        if [ "$name" = injected-by-image-volume ] && [ "${minor:-0}" -lt 35 ]; then
            say "SKIPPED: $file (image volumes need Kubernetes 1.35, the cluster has 1.${minor:-?})"
            continue
        fi
        start_sandbox "$name" "$file" "$ID:runtime"
        pod=$(pod_of "$name")
        forward "$pod"
        execute "python3 -c 'print(6 * 7)'" 42
        stop_forwarding
    done
}

explain() {
    cat <<END

The cluster $cluster keeps running. To use the objects in the namespace $NAMESPACE:
    kind get kubeconfig --name $cluster >kubeconfig
    export KUBECONFIG=\$PWD/kubeconfig
    kubectl -n $NAMESPACE get sandboxes,sandboxclaims,pods
    kubectl -n $NAMESPACE port-forward pod/$pod 8888
END
    if [ -n "$created" ]; then
        printf 'To delete it:\n    kind delete cluster --name %s\n' "$cluster"
    else
        printf 'To remove them:\n    kubectl delete namespace %s\n' "$NAMESPACE"
    fi
}

check_options() {
    [[ $timeout =~ ^[1-9][0-9]{0,4}$ ]] || bad_usage
    [ -z "$controller" ] || controller=$(cd "$CALLER_DIRECTORY" && realpath -- "$controller") || exit 69
}

main() {
    parse_options "$@"
    check_options
    check_cluster_tools
    prepare
    build_all
    create_cluster
    load "$ID:default"
    install_controller
    prepare_namespace

    start_sandbox sandbox-runtime sandbox.yaml
    pod=$(pod_of sandbox-runtime)
    forward "$pod"
    test_sandbox
    test_sdk
    never_restarted "$pod"
    terminates_in_time sandbox-runtime "$pod"
    if [ -n "$inject" ]; then
        load "$ID:runtime"
        inject_runtime
    fi
    claim
    say 'passed'
    kept=$keep
}

main "$@"
