#!/usr/bin/env bash
# From a machine with Docker, kind, kubectl and curl to a passed test on a real cluster: makes the cluster,
# installs the agent-sandbox controller, loads the image, applies kind/, lets the tester talk to the sandbox,
# takes another one out of a warm pool, and cleans everything away.
set -euo pipefail

# The controller is named here and nowhere else. The checksum is not filled in yet: no release could be
# downloaded where this was written. Until it is, each run says what it got, to be compared and pinned.
CONTROLLER_VERSION=v0.5.6
CONTROLLER_URL=https://github.com/kubernetes-sigs/agent-sandbox/releases/download/$CONTROLLER_VERSION/sandbox-with-extensions.yaml
CONTROLLER_SHA256=''
CONTROLLER_NAMESPACE=agent-sandbox-system
CONTROLLER=deployment/agent-sandbox-controller
CRDS=(
    customresourcedefinition/sandboxes.agents.x-k8s.io
    customresourcedefinition/sandboxclaims.extensions.agents.x-k8s.io
    customresourcedefinition/sandboxtemplates.extensions.agents.x-k8s.io
    customresourcedefinition/sandboxwarmpools.extensions.agents.x-k8s.io
)
# Whole names: another API in a cluster of yours may have a "sandbox" as well.
SANDBOX=sandboxes.agents.x-k8s.io
CLAIM=sandboxclaims.extensions.agents.x-k8s.io
POOL=sandboxwarmpools.extensions.agents.x-k8s.io
NAMESPACE=sandbox-runtime-test # this script's own: what is in it may be deleted

CALLED_FROM=$PWD
# Building and packing is that script's: it has the functions run, quietly, say, fail, build_* and choose_toolbox.
# shellcheck source=run-test-docker.sh
. "$(dirname "${BASH_SOURCE[0]}")/run-test-docker.sh"

usage() {
    cat <<END
usage: run-test-kind.sh [--cluster NAME] [--keep] [--inject] [--timeout SECONDS] [--controller FILE]
                        [--toolbox IMAGE] [--builder IMAGE]

  --cluster NAME    the cluster (default: $cluster). One that exists is used and stays; else it is made, and deleted
  --keep            leave the cluster and the claimed sandbox as they are afterwards, and print how to get there
  --inject          also turn an unchanged image into a sandbox (kind/inject-*.yaml; the node pulls that image)
  --timeout SECONDS how long to wait for any one thing (default: $limit)
  --controller FILE the controller's manifest, instead of the download of $CONTROLLER_VERSION
  --toolbox IMAGE   as for run-test-docker.sh
  --builder IMAGE   as for run-test-docker.sh
  --help            print this

SDK_CONTRACT=FILE in the environment names a script that drives the Python SDK against a URL; it is run when it is there.
Exit status: 0 passed; 1 failed; 64 wrong option; 69 something that is needed is missing; 128+N signal N.
END
}

cluster=sandbox-runtime-test limit=180 inject='' controller=''
created='' network='' installed='' applied='' loaded=() # what is to be undone
forwarder='' port='' pod=''
SDK_CONTRACT=${SDK_CONTRACT-../shared/conformance/sdk_contract.py}

cleanup() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT
    if [ -n "$child" ]; then
        [ -n "$unbreakable" ] || kill -TERM -- "-$child" 2>/dev/null || true
        [ -n "$unbreakable" ] || discard rm --force "$ID-build"
        wait "$child" 2>/dev/null || true
        child=''
    fi
    case $status in
    0 | 129 | 130 | 143) ;;
    *)
        diagnose
        [ -z "$applied" ] || kept=$keep
        ;;
    esac
    stop_forwarding
    if [ -z "$kept" ]; then
        say 'cleaning up'
        if [ -n "$created" ]; then delete_cluster; else clear_cluster; fi
    fi
    discard rmi --force "$ID:default" "$ID:runtime" "$ID:toolbox"
    [ -z "$WORK" ] || rm -rf "$WORK"
    [ -z "$kept" ] || explain
    exit "$status"
}

delete_cluster() {
    local node
    run kind delete cluster --name "$cluster" --kubeconfig "$WORK/kubeconfig" >/dev/null 2>&1 || true
    # A kind that was stopped while it made the node may have left the engine one that it did not see.
    for node in $(docker ps --all --quiet --filter "label=io.x-k8s.kind.cluster=$cluster"); do
        discard rm --force --volumes "$node"
    done
    [ -z "$network" ] || discard network rm kind
}

# Out of a cluster that is to stay goes what came with us, and nothing else.
clear_cluster() {
    local node image
    [ -z "$applied" ] || kube delete namespace "$NAMESPACE" --ignore-not-found --timeout=90s >/dev/null 2>&1 || true
    [ -z "$installed" ] ||
        kube_anywhere delete --ignore-not-found --timeout=90s --filename "$WORK/controller.yaml" >/dev/null 2>&1 || true
    [ ${#loaded[@]} != 0 ] || return 0
    for node in $(kind get nodes --name "$cluster" 2>/dev/null); do
        for image in "${loaded[@]}"; do discard exec "$node" crictl rmi "docker.io/library/$image"; done
    done
}

# Neither the user's own configuration nor its current context is looked at.
kube() { kube_anywhere --namespace "$NAMESPACE" "$@"; }
# For the controller's manifest: kubectl refuses objects of another namespace than the one it is given.
kube_anywhere() { kubectl --kubeconfig "$WORK/kubeconfig" --context "kind-$cluster" "$@"; }

# As `quietly`, for what may be stopped at any time.
hushed() {
    local status=0
    run "$@" >"$WORK/output" 2>&1 || status=$?
    [ "$status" = 0 ] || cat "$WORK/output" >&2
    return "$status"
}

# What went wrong is seldom in the message of what noticed it.
diagnose() {
    local directory
    [ -n "$applied$installed" ] || return 0
    directory=$(mktemp -d "${TMPDIR:-/tmp}/run-test-kind.XXXXXX")
    into() { # FILE ARGUMENT...
        kube --request-timeout=20s "${@:2}" >"$directory/$1" 2>&1 || true
    }
    into objects.yaml get --output yaml "$SANDBOX,$CLAIM,$POOL,pods,networkpolicies"
    into describe.txt describe "$SANDBOX,$CLAIM,$POOL,pods"
    into events.txt get events --sort-by=.lastTimestamp
    into log.txt logs --selector app.kubernetes.io/name=sandbox-runtime --all-containers --prefix --tail=200
    into previous-log.txt logs --selector app.kubernetes.io/name=sandbox-runtime --all-containers --prefix --previous
    into controller-log.txt logs --namespace "$CONTROLLER_NAMESPACE" "$CONTROLLER" --tail=500
    into nodes.txt describe nodes
    [ ! -e "$WORK/forward" ] || cp "$WORK/forward" "$directory/port-forward.txt"
    say "what the cluster has to say about it: $directory"
}

check_cluster_tools() {
    local tool
    for tool in 'kind (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)' \
        'kubectl (https://kubernetes.io/docs/tasks/tools)' 'curl (Debian: apt-get install curl)'; do
        command -v "${tool%% *}" >/dev/null || missing+=("$tool")
    done
    check_tools
}

make_cluster() {
    if kind get clusters 2>/dev/null | grep -qxF -- "$cluster"; then
        say "using the cluster $cluster, which is there and stays"
        run kind export kubeconfig --name "$cluster" --kubeconfig "$WORK/kubeconfig" >/dev/null 2>&1 ||
            fail "kind has no kubeconfig for $cluster; delete it if it is broken: kind delete cluster --name $cluster"
    else
        say "making the cluster $cluster"
        docker network inspect kind >/dev/null 2>&1 || network=new
        created=yes
        run kind create cluster --name "$cluster" --kubeconfig "$WORK/kubeconfig" --wait "${limit}s" \
            >"$WORK/output" 2>&1 || { cat "$WORK/output" >&2 && fail 'kind could not make the cluster'; }
    fi
    eventually 'the API server does not answer' kube get --raw /readyz
}

# Tries until it works, for as long as anything may take.
eventually() { # WHAT-IF-NOT COMMAND...
    local deadline=$((SECONDS + limit)) wrong=$1
    shift
    until run "$@" >"$WORK/output" 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { cat "$WORK/output" >&2 && fail "$wrong (waited $limit s)"; }
        run sleep 0.5
    done
}

# The classic way fails with engines that keep images in containerd; an archive does not.
load() { # IMAGE
    say "loading $1 into the cluster"
    loaded+=("$1")
    run kind load docker-image "$1" --name "$cluster" >"$WORK/output" 2>&1 && return
    say 'kind can not take it from the engine; loading it as an archive'
    hushed docker save --output "$WORK/image.tar" "$1"
    hushed kind load image-archive "$WORK/image.tar" --name "$cluster"
}

install_controller() {
    if run kube get "${CRDS[0]}" >/dev/null 2>&1; then
        say 'a controller is there already, and stays'
        return
    fi
    fetch_controller
    say 'installing the controller'
    installed=yes
    # On the server's side, because these CRDs are too large for the annotation of a client-side apply.
    hushed kube_anywhere apply --server-side --force-conflicts --filename "$WORK/controller.yaml"
    hushed kube wait --for=condition=Established --timeout="${limit}s" "${CRDS[@]}"
    hushed kube rollout status --namespace "$CONTROLLER_NAMESPACE" "$CONTROLLER" --timeout="${limit}s"
}

fetch_controller() {
    local sum
    if [ -n "$controller" ]; then
        cp -- "$controller" "$WORK/controller.yaml"
        return
    fi
    say "downloading the controller $CONTROLLER_VERSION"
    run curl --fail --silent --show-error --location --retry 3 --max-time "$limit" \
        --output "$WORK/controller.yaml" "$CONTROLLER_URL" || fail "can not download $CONTROLLER_URL"
    read -r sum _ < <(sha256sum "$WORK/controller.yaml")
    if [ -z "$CONTROLLER_SHA256" ]; then
        say "NOT VERIFIED: no checksum is pinned for $CONTROLLER_VERSION; this one has the SHA-256 $sum"
    elif [ "$sum" != "$CONTROLLER_SHA256" ]; then
        fail "$CONTROLLER_URL has the SHA-256 $sum, not $CONTROLLER_SHA256"
    fi
}

# kind/FILE with this run's image in it.
manifest() { # FILE IMAGE
    sed -e "s|image: sandbox-runtime:[^ ]*|image: $2|" -e "s|reference: sandbox-runtime:[^ ]*|reference: $2|" \
        -e "s|^  name: sandboxes$|  name: $NAMESPACE|" "kind/$1" >"$WORK/$1"
}
apply() { # FILE [IMAGE]
    manifest "$1" "${2:-$ID:default}"
    hushed kube apply --server-side --force-conflicts --filename "$WORK/$1"
}

api_takes_everything() {
    local file
    for file in sandbox.yaml template.yaml warmpool.yaml claim.yaml; do
        manifest "$file" "$ID:default"
        kube apply --server-side --force-conflicts --dry-run=server --filename "$WORK/$file" || return
    done
}

prepare_namespace() {
    say "preparing the namespace $NAMESPACE, which takes nothing but restricted pods"
    applied=yes
    apply namespace.yaml
    # The conversion webhook answers some time after its rollout is complete.
    eventually 'the API does not take a sandbox' api_takes_everything
    apply networkpolicy.yaml
}

# A Sandbox that an earlier run left has that run's image, and its pod would not change.
start_sandbox() { # NAME FILE [IMAGE]
    say "starting the sandbox $1"
    hushed kube delete "$SANDBOX/$1" --ignore-not-found --cascade=foreground --timeout="${limit}s"
    apply "${@:2}"
    ready "$SANDBOX/$1"
}

ready() { # OBJECT
    hushed kube wait --for=condition=Ready --timeout="${limit}s" "$1" || fail "$1 is not ready"
    say "$1 is ready"
}

field() { kube --request-timeout=30s get "$1" --output "jsonpath={$2}"; } # OBJECT PATH

pod_of() { # SANDBOX-NAME
    local selector
    selector=$(field "$SANDBOX/$1" .status.selector)
    [ -n "$selector" ] || fail "the sandbox $1 names no pod"
    kube --request-timeout=30s get pods --selector "$selector" --output 'jsonpath={.items[0].metadata.name}'
}

# Sets $port. kubectl chooses one that is free and says which.
forward() { # POD
    local deadline=$((SECONDS + limit))
    stop_forwarding
    set -m
    kubectl --kubeconfig "$WORK/kubeconfig" --context "kind-$cluster" --namespace "$NAMESPACE" \
        port-forward --address 127.0.0.1 "pod/$1" :8888 >"$WORK/forward" 2>&1 </dev/null &
    forwarder=$!
    set +m
    port=''
    until [ -n "$port" ]; do
        still_forwarding
        [ "$SECONDS" -lt "$deadline" ] || fail "kubectl does not say where it forwards from (waited $limit s)"
        run sleep 0.1
        port=$(sed -n 's/^Forwarding from 127\.0\.0\.1:\([0-9]*\) -> .*/\1/p' "$WORK/forward")
    done
    until run curl --fail --silent --max-time 5 "http://127.0.0.1:$port/" >/dev/null; do
        still_forwarding
        [ "$SECONDS" -lt "$deadline" ] || fail "no answer through the port-forward (waited $limit s)"
        run sleep 0.5
    done
}
still_forwarding() {
    kill -0 "$forwarder" 2>/dev/null && return
    cat "$WORK/forward" >&2
    fail 'the port-forward ended by itself'
}
stop_forwarding() {
    [ -n "$forwarder" ] || return 0
    kill -TERM -- "-$forwarder" 2>/dev/null || true
    wait "$forwarder" 2>/dev/null || true
    forwarder=''
}

talk() {
    say "the tester talks to it, at 127.0.0.1:$port"
    if [ -z "$builder" ]; then
        run cargo run --quiet --locked --target-dir "${CARGO_TARGET_DIR:-target}" --package tester -- 127.0.0.1 "$port"
    else
        run docker run --rm --name "$ID-build" --network host --volume "$ROOT:/source:ro" "$builder" \
            "/source/target/builder/$TARGET/release/tester" 127.0.0.1 "$port"
    fi || {
        run sleep 2 # a kubectl that has lost the pod takes a moment to end
        still_forwarding
        fail 'the tester is not content'
    }
    still_forwarding
}

sdk() {
    if [ -z "$SDK_CONTRACT" ] || [ ! -e "$SDK_CONTRACT" ]; then
        say 'SKIPPED: the Python SDK (there is no SDK_CONTRACT here)'
    elif ! python3 -m venv --help >/dev/null 2>&1; then
        say 'SKIPPED: the Python SDK (there is no python3 with venv here)'
    else
        say 'the Python SDK talks to it'
        TMPDIR=$WORK hushed .ci/conformance.sh "$SDK_CONTRACT" "http://127.0.0.1:$port" 1.0.8 || fail 'the SDK is not content'
    fi
}

# Runs COMMAND, which must print LINE and nothing else.
execute() { # COMMAND LINE
    local answer
    answer=$(curl --fail --silent --show-error --max-time 30 --header 'Content-Type: application/json' \
        --data "{\"command\": \"$1\"}" "http://127.0.0.1:$port/execute") || fail "$1: no answer"
    [ "$answer" = "{\"stdout\":\"$2\\n\",\"stderr\":\"\",\"exit_code\":0}" ] || fail "$1: $answer"
}

never_restarted() { # POD
    local restarts
    restarts=$(field "pod/$1" '.status.containerStatuses[*].restartCount')
    [ "$restarts" = 0 ] || fail "the sandbox was restarted: $restarts"
    say 'no restart'
}

# Kubernetes kills what is still there after the grace period, so a runtime that ignored SIGTERM would take all of it.
ends_when_told() { # SANDBOX-NAME POD
    local grace begun=$SECONDS
    grace=$(field "pod/$2" .spec.terminationGracePeriodSeconds)
    stop_forwarding
    hushed kube delete "$SANDBOX/$1" --cascade=foreground --timeout="${limit}s"
    hushed kube wait --for=delete "pod/$2" --timeout="${limit}s"
    [ $((SECONDS - begun)) -lt $((grace / 2)) ] || fail "it took $((SECONDS - begun)) s to delete, with a grace of $grace s"
    say "deleted within $((SECONDS - begun)) s; the grace period is $grace s"
}

claim() {
    local begun name
    say 'filling a warm pool'
    hushed kube delete "$CLAIM/sandbox-runtime" --ignore-not-found --timeout="${limit}s"
    apply template.yaml
    apply warmpool.yaml
    hushed kube wait --for=jsonpath='{.status.readyReplicas}'=2 --timeout="${limit}s" "$POOL/sandbox-runtime" ||
        fail 'the warm pool does not fill'
    say 'claiming a sandbox'
    begun=$(microseconds)
    apply claim.yaml
    ready "$CLAIM/sandbox-runtime"
    name=$(field "$CLAIM/sandbox-runtime" .status.sandbox.name)
    pod=$(pod_of "$name")
    forward "$pod"
    execute 'echo claimed' claimed
    say "from the claim to the first command's output: $((($(microseconds) - begun) / 1000)) ms, a port-forward included"
}
microseconds() {
    local now=${EPOCHREALTIME:-$SECONDS.000000} # bash before 5 has whole seconds only
    echo "${now/[.,]/}"
}

inject_runtime() {
    local name file minor
    minor=$(kube get --raw /version | sed -n 's/.*"minor": *"\([0-9]*\).*/\1/p')
    for name in injected-by-init-container injected-by-image-volume; do
        file=${name/injected-by/inject}.yaml
        if [ "$name" = injected-by-image-volume ] && [ "${minor:-0}" -lt 35 ]; then
            say "SKIPPED: $file (image volumes come with Kubernetes 1.35, this is 1.${minor:-?})"
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

The cluster $cluster keeps running, with what is in the namespace $NAMESPACE. Talk to it:
    kind get kubeconfig --name $cluster >kubeconfig
    export KUBECONFIG=\$PWD/kubeconfig
    kubectl -n $NAMESPACE get sandboxes,sandboxclaims,pods
    kubectl -n $NAMESPACE port-forward pod/$pod 8888
END
    if [ -n "$created" ]; then
        printf 'and delete it:\n    kind delete cluster --name %s\n' "$cluster"
    else
        printf 'and take it away:\n    kubectl delete namespace %s\n' "$NAMESPACE"
    fi
}

parse_options() {
    while [ $# != 0 ]; do
        case $1 in
        --keep) keep=yes ;;
        --inject) inject=yes ;;
        --cluster | --timeout | --controller | --toolbox | --builder)
            [ -n "${2:-}" ] || bad_usage
            case $1 in
            --cluster) cluster=$2 ;;
            --timeout) limit=$2 ;;
            --controller) controller=$2 ;;
            --toolbox) toolbox=$2 ;;
            --builder) builder=$2 ;;
            esac
            shift
            ;;
        --help | -h)
            usage
            exit
            ;;
        *) bad_usage ;;
        esac
        shift
    done
    [[ $limit =~ ^[1-9][0-9]{0,4}$ ]] || bad_usage
    if [ -n "$controller" ]; then controller=$(cd "$CALLED_FROM" && realpath -- "$controller") || exit 69; fi
}

main() {
    parse_options "$@"
    check_cluster_tools
    trap cleanup EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    WORK=$(mktemp -d)

    if [ -z "$builder" ]; then build_with_cargo; else build_in_container; fi
    choose_toolbox
    build_image "$ID:runtime" --target runtime
    build_image "$ID:default" --build-arg TOOLBOX="$toolbox"
    make_cluster
    load "$ID:default"
    install_controller
    prepare_namespace

    start_sandbox sandbox-runtime sandbox.yaml
    pod=$(pod_of sandbox-runtime)
    forward "$pod"
    talk
    sdk
    never_restarted "$pod"
    ends_when_told sandbox-runtime "$pod"
    if [ -n "$inject" ]; then
        load "$ID:runtime"
        inject_runtime
    fi
    claim
    say 'passed'
    kept=$keep
}

main "$@"
