#!/usr/bin/env bash
# Tests the image on a real cluster: creates a kind cluster, installs the agent-sandbox controller, loads
# the images, applies kind/, runs the tester as a Job against the sandbox, uses the sandbox through a
# port-forward, claims another one from a warm pool and removes everything.
# Needs Docker, kind, kubectl and curl.
set -euo pipefail

# The checksum of the controller's manifest is not pinned yet. Each run prints the one it downloaded.
CONTROLLER_VERSION=v0.5.6
CONTROLLER_URL=https://github.com/kubernetes-sigs/agent-sandbox/releases/download/$CONTROLLER_VERSION
CONTROLLER_URL+=/sandbox-with-extensions.yaml
CONTROLLER_SHA256=''
CONTROLLER_NAMESPACE=agent-sandbox-system
CONTROLLER=deployment/agent-sandbox-controller
CONTROLLER_LABEL=app=agent-sandbox-controller # of its Deployment and its pods
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
RUNTIME_CLASS=runtimeclasses.node.k8s.io
JOB=job/tester
JOB_LABEL=job-name=tester # Kubernetes adds it to the pods of a Job
SDK_VERSION=1.0.8
UNSCHEDULABLE_SECONDS=15 # tolerated: a node that has just started is not ready
NAMESPACE=sandbox-runtime-test # reserved for this script, which deletes it

CALLER_DIRECTORY=$PWD
# Defines say, fail, run, quietly, discard, prepare, build_all and parse_options.
# shellcheck source=run-test-docker.sh
. "$(dirname "${BASH_SOURCE[0]}")/run-test-docker.sh"

usage() {
    cat <<END
usage: run-test-kind.sh [--cluster NAME] [--keep] [--inject] [--runtime-class NAME] [--timeout SECONDS]
                        [--controller FILE] [--toolbox IMAGE] [--builder IMAGE]

  --cluster NAME    the cluster (default: $cluster); an existing one is used and kept,
                    otherwise the script creates and deletes it
  --keep            keep the cluster and the claimed sandbox and print how to reach them
  --inject          also inject the runtime into an unmodified image (kind/inject-*.yaml; the node pulls it)
  --runtime-class NAME
                    run all sandboxes in this RuntimeClass of an existing cluster
  --timeout SECONDS timeout of each wait (default: $timeout)
  --controller FILE manifest of the controller (default: download $CONTROLLER_VERSION)
  --toolbox IMAGE   see run-test-docker.sh
  --builder IMAGE   see run-test-docker.sh
  --help            print this help

SKIP_SDK=yes in the environment skips the checks of the Python SDK.
Exit status: 0 passed; 1 failed; 64 invalid option; 69 missing prerequisite; 128+N signal N.
END
}

SWITCHES=(keep inject) VALUED=(cluster runtime_class timeout controller toolbox builder)
cluster=sandbox-runtime-test timeout=180 inject='' runtime_class='' controller=''
existing=''                                             # set if the cluster is not created by this script
created='' network='' installed='' applied='' loaded=() # for cleanup
forwardable=yes                                         # whether a port-forward reaches the sandboxes
forwarder='' port='' pod='' problem='' job_status='' road=''

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
    discard rmi --force "$ID:default" "$ID:runtime" "$ID:tester" "$ID:toolbox"
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
    save objects.yaml get --output yaml "$SANDBOX,$CLAIM,$POOL,jobs,pods,networkpolicies"
    save describe.txt describe "$SANDBOX,$CLAIM,$POOL,jobs,pods"
    save events.txt get events --sort-by=.lastTimestamp
    save log.txt logs "${ours[@]}" --tail=200
    save previous-log.txt logs "${ours[@]}" --previous
    save tester-log.txt logs "$JOB" --tail=500
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

# Early, so that an unusable cluster or RuntimeClass is reported before anything is built.
find_cluster() {
    if kind get clusters 2>/dev/null | grep -qxF -- "$cluster"; then
        say "using the existing cluster $cluster"
        existing=yes
        run kind export kubeconfig --name "$cluster" --kubeconfig "$WORK/kubeconfig" >/dev/null 2>&1 ||
            fail "cannot export the kubeconfig; to delete the cluster: kind delete cluster --name $cluster"
    fi
    [ -z "$runtime_class" ] || check_runtime_class
}

check_runtime_class() {
    [ -n "$existing" ] ||
        refuse "--runtime-class: the cluster $cluster does not exist, and this script creates no RuntimeClass"
    run kube get "$RUNTIME_CLASS/$runtime_class" >"$WORK/output" 2>&1 && return
    grep -q NotFound "$WORK/output" || { cat "$WORK/output" >&2 && fail "cannot look up RuntimeClasses"; }
    refuse "the cluster $cluster has no RuntimeClass $runtime_class; it has:" \
        "$(kube get "$RUNTIME_CLASS" --output 'jsonpath={.items[*].metadata.name}')"
}

# The debug build compiles faster.
build_tester() {
    local out=${CARGO_TARGET_DIR:-target} profile=debug
    if [ -z "$builder" ]; then
        run cargo build --locked --target-dir "$out" --target "$TARGET" --package tester
    else
        out=target/builder profile=release # build_in_container has built it
    fi
    install -m 0555 "$out/$TARGET/$profile/tester" "$WORK/tester"
    build_image "$ID:tester" --target tester --build-arg BINARY=tester
}

refuse() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 69
}

create_cluster() {
    if [ -z "$existing" ]; then
        say "creating the cluster $cluster"
        docker network inspect kind >/dev/null 2>&1 || network=new
        created=yes
        run kind create cluster --name "$cluster" --kubeconfig "$WORK/kubeconfig" --wait "${timeout}s" \
            >"$WORK/output" 2>&1 || { cat "$WORK/output" >&2 && fail 'kind could not create the cluster'; }
    fi
    await 'the API server does not respond' run kube get --raw /readyz
}

# Waits until a command succeeds. Its output is printed if it never does. Ends at once when an object of
# this run, or the controller, has a failure that waiting does not repair.
await() { # MESSAGE COMMAND...
    local message=$1 deadline=$((SECONDS + timeout)) unschedulable_since='' warning=''
    shift
    until "$@" >"$WORK/output" 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            cat "$WORK/output" >&2
            [ -z "$warning" ] || printf 'last failure: %s\n' "$warning" >&2
            fail "$message (waited $timeout s)"
        fi
        check_failures
        run sleep 0.2
    done
}

# A condition for `await`. kubectl watches the object, so a change is noticed without delay.
met() { # CONDITION ARGUMENT...
    run kube wait --for="$1" --timeout=1s "${@:2}"
}

# Prints each object, its conditions and its containers, in lines of fields separated by "|".
STATE='{range .items[*]}'
STATE+='{"object|"}{.metadata.uid}{"|"}{.kind}{"|"}{.metadata.name}{"|"}{.metadata.namespace}{"\n"}'
STATE+='{"event|"}{.involvedObject.uid}{"|"}{.reason}{"|"}{.message}{"\n"}'
STATE+='{range .status.conditions[*]}'
STATE+='{"condition|"}{.type}{"|"}{.status}{"|"}{.reason}{"|"}{.message}{"\n"}{end}'
for statuses in initContainerStatuses containerStatuses; do
    STATE+="{range .status.${statuses}[*]}"
    STATE+='{"container|"}{.name}{"|"}{.state.waiting.reason}{"|"}{.state.waiting.message}{"\n"}{end}'
done
STATE+='{end}'

print_state() { # ARGUMENT...
    # The objects or their definitions may not exist yet.
    run kube --request-timeout=20s get "$@" --output "jsonpath=$STATE" 2>/dev/null || true
}

check_failures() {
    local object namespace unschedulable='' line a b c d
    local -A objects=()
    {
        print_state --namespace "$CONTROLLER_NAMESPACE" --selector "$CONTROLLER_LABEL" deployments,pods
        print_state --namespace "$CONTROLLER_NAMESPACE" events
        print_state "jobs,pods,$SANDBOX,$CLAIM,events"
    } >"$WORK/state"
    while IFS='|' read -r line a b c d; do
        case $line in
        object) object=${b,,}/$c namespace=$d objects[$a]=$object ;;
        event) # listed after the objects; those of an earlier run have other uids
            [ -z "${objects[${a:-none}]-}" ] || check_event "${objects[$a]}" "$b" "$c${d:+|$d}"
            ;;
        condition)
            ! refusal "$d" || give_up "$d"
            [ "$a $b" != 'PodScheduled False' ] || unschedulable="$object is not scheduled: $d"
            ;;
        container) check_container "$a" "$b" "$c${d:+|$d}" ;;
        esac
    done <"$WORK/state"
    check_scheduling
}

# Whether the API server refused to create a pod: a quota, a limit or Pod Security. Soon after the creation of
# a namespace the message may be that its service account does not exist yet.
refusal() { # MESSAGE
    [[ $1 == *' is forbidden: '* && $1 != *'error looking up service account'* ]]
}

check_event() { # OBJECT REASON MESSAGE
    local object=$1
    case $2 in
    FailedCreate) ! refusal "$3" || give_up "$3" ;;
    FailedCreatePodSandBox) # the RuntimeClass has a handler that the node lacks
        [[ $3 != *'no runtime for '* ]] || give_up "$3"
        ;;
    esac
    [[ $2 != Failed* ]] || warning="$object: $2: $3" # Kubernetes tries again
}

check_container() { # NAME REASON MESSAGE
    case $2 in
    ErrImagePull | ImagePullBackOff | InvalidImageName | ErrImageNeverPull | ImageInspectError | \
        CreateContainerConfigError | CreateContainerError | RunContainerError | CrashLoopBackOff)
        last_line "$1"
        give_up "$2: $3 (container $1)"
        ;;
    esac
}

check_scheduling() {
    if [ -z "$unschedulable" ]; then
        unschedulable_since=''
    elif [ $((SECONDS - ${unschedulable_since:=$SECONDS})) -ge "$UNSCHEDULABLE_SECONDS" ]; then
        fail "$unschedulable (for $UNSCHEDULABLE_SECONDS s)"
    fi
}

give_up() { fail "$object in $namespace: $1"; } # REASON

# Prints the last line of a container's log. It has none if the image was not pulled.
last_line() { # CONTAINER
    local text option
    for option in --previous=false --previous; do
        text=$(kube --request-timeout=20s logs --namespace "$namespace" "$object" --container "$1" --tail=1 \
            "$option" 2>/dev/null) || text=''
        [ -z "$text" ] || break
    done
    [ -z "$text" ] || printf 'last line of the log of %s: %s\n' "$1" "$text" >&2
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
    await 'the definitions of the controller are not established' met condition=Established "${CRDS[@]}"
    await 'the controller is not available' met condition=Available \
        --namespace "$CONTROLLER_NAMESPACE" "$CONTROLLER"
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

# Writes kind/FILE with the image, the namespace and, for sandboxes, the RuntimeClass of this run.
manifest() { # FILE IMAGE
    local edits=(-e "s#(image|reference): sandbox-(runtime|tester):[^ ]*#\\1: $2#"
        -e "s|^  name: sandboxes$|  name: $NAMESPACE|")
    [ -z "$runtime_class" ] || [ "$1" = tester.yaml ] ||
        edits+=(-e "s|^( *)(automountServiceAccountToken:.*)|\\1runtimeClassName: $runtime_class\n\\1\\2|")
    sed -E "${edits[@]}" "kind/$1" >"$WORK/$1"
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
    await 'the API does not accept a sandbox' run api_accepts_manifests
    # Of an earlier run: a pod would keep its image, and a failure would be taken for one of this run.
    hushed kube delete "$CLAIM,$POOL,$SANDBOX,jobs" --all --cascade=foreground --timeout="${timeout}s"
    apply networkpolicy.yaml
}

start_sandbox() { # NAME FILE [IMAGE]
    say "starting the sandbox $1"
    apply "${@:2}"
    ready "$SANDBOX/$1"
}

ready() { # OBJECT
    await "$1 is not ready" met condition=Ready "$1"
    say "$1 is ready"
}

field() { kube --request-timeout=30s get "$1" --output "jsonpath={$2}"; } # OBJECT PATH

pod_of() { # SANDBOX-NAME
    local selector
    selector=$(field "$SANDBOX/$1" .status.selector)
    [ -n "$selector" ] || fail "the sandbox $1 has no pod selector"
    kube --request-timeout=30s get pods --selector "$selector" --output 'jsonpath={.items[0].metadata.name}'
}

# Runs the tester as a Job, in the place of a router, and streams its output. Sets $job_status.
run_job() { # POD ARGUMENT...
    local address arguments
    address=$(field "pod/$1" .status.podIP)
    [ -n "$address" ] || fail "the pod $1 has no address"
    printf -v arguments ', "%s"' "$address" 8888 "${@:2}"
    hushed kube delete "$JOB" --ignore-not-found --cascade=foreground --timeout="${timeout}s"
    manifest tester.yaml "$ID:tester"
    sed -i "s#\"10.0.0.1\", \"8888\"#${arguments:2}#" "$WORK/tester.yaml"
    hushed kube apply --server-side --force-conflicts --filename "$WORK/tester.yaml"
    await 'the tester is not started' job_started
    run kube logs --follow "$JOB" || say 'the stream of its log broke'
    await 'the tester does not end' job_ended
    job_status=$(job_pod '.status.containerStatuses[*].state.terminated.exitCode')
    [ -n "$job_status" ] || fail "the tester was stopped: $(field "$JOB" '.status.conditions[*].message')"
}
job_pod() { # PATH
    kube --request-timeout=30s get pods --selector "$JOB_LABEL" --output "jsonpath={.items[*]$1}"
}
job_started() { # also true if it has ended
    case $(job_pod .status.phase) in
    Running | Succeeded | Failed) ;;
    *) job_ended ;;
    esac
}
job_ended() {
    [[ $(field "$JOB" '.status.conditions[?(@.status=="True")].type') == *@(Complete|Failed)* ]]
}

test_sandbox() { # POD
    say "running the tester in the cluster against the pod $1"
    run_job "$1"
    [ "$job_status" = 0 ] || fail "tester failed (exit status $job_status)"
}

# A port-forward does not reach the pods of every RuntimeClass: containerd connects inside the network
# namespace of the pod, where the network stack of gVisor does not listen. The tester has reached the port.
try_forward() { # POD
    if [ -z "$runtime_class" ]; then
        forward "$1"
    elif ! forwarded "$1" 10; then
        stop_forwarding
        forwardable='' problem=$(grep -om1 'connection refused' "$WORK/forward") || problem="no response"
        say "a port-forward does not reach the pods of the RuntimeClass $runtime_class ($problem)"
    fi
}

# Sets $port, a free port that kubectl chooses.
forward() { # POD
    forwarded "$1" "$timeout" && return
    cat "$WORK/forward" >&2
    fail "$problem"
}

# Sets $problem if the pod does not respond.
forwarded() { # POD SECONDS
    local deadline=$((SECONDS + $2))
    stop_forwarding
    set -m
    kubectl --kubeconfig "$WORK/kubeconfig" --context "kind-$cluster" --namespace "$NAMESPACE" \
        port-forward --address 127.0.0.1 "pod/$1" :8888 >"$WORK/forward" 2>&1 </dev/null &
    forwarder=$!
    set +m
    port='' problem="kubectl port-forward printed no port (waited $2 s)"
    until [ -n "$port" ]; do
        forwarding && [ "$SECONDS" -lt "$deadline" ] || return
        run sleep 0.1
        port=$(sed -n 's/^Forwarding from 127\.0\.0\.1:\([0-9]*\) -> .*/\1/p' "$WORK/forward")
    done
    problem="no response through the port-forward (waited $2 s)"
    until run curl --fail --silent --max-time 5 "http://127.0.0.1:$port/" >/dev/null; do
        forwarding && [ "$SECONDS" -lt "$deadline" ] || return
        run sleep 0.5
    done
}
forwarding() {
    kill -0 "$forwarder" 2>/dev/null && return
    problem='the port-forward ended unexpectedly'
    return 1
}
stop_forwarding() {
    [ -n "$forwarder" ] || return 0
    kill -TERM -- "-$forwarder" 2>/dev/null || true
    wait "$forwarder" 2>/dev/null || true
    forwarder=''
}

test_forwarded() {
    if [ -z "$forwardable" ]; then
        say 'SKIPPED: one command and the Python SDK through a port-forward'
        return
    fi
    execute 'echo forwarded' forwarded
    say 'a command through the port-forward: passed'
    test_sdk
    still_forwarding
}
still_forwarding() {
    run sleep 1 # a kubectl that has lost the pod takes a moment to exit
    forwarding || { cat "$WORK/forward" >&2 && fail "$problem"; }
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
        --data "{\"command\": \"$1\"}" "http://127.0.0.1:$port/execute") || {
        still_forwarding
        fail "$1: no response"
    }
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
    await "pod/$2 is not deleted" met delete "pod/$2"
    seconds=$((SECONDS - start))
    [ "$seconds" -lt $((grace / 2)) ] || fail "deletion took $seconds s; the grace period is $grace s"
    say "deleted in $seconds s; the grace period is $grace s"
}

claim() {
    local start name
    say 'filling a warm pool'
    apply template.yaml
    apply warmpool.yaml
    await 'the warm pool is not ready' met 'jsonpath={.status.readyReplicas}=2' "$POOL/sandbox-runtime"
    say 'claiming a sandbox'
    start=$(microseconds)
    apply claim.yaml
    ready "$CLAIM/sandbox-runtime"
    name=$(field "$CLAIM/sandbox-runtime" .status.sandbox.name)
    pod=$(pod_of "$name")
    use "$pod" claimed echo claimed
    say "claim to first output: $((($(microseconds) - start) / 1000)) ms, including the $road"
}

# Runs a command in a sandbox through a port-forward if possible, otherwise by the tester. It must print
# exactly LINE. Its arguments need no quoting.
use() { # POD LINE COMMAND...
    local output
    if [ -n "$forwardable" ]; then
        road='port-forward'
        forward "$1"
        execute "${*:3}" "$2"
    else
        road="tester's Job"
        run_job "$1" -- "${@:3}"
        output=$(kube --request-timeout=30s logs "$JOB")
        [ "$job_status $output" = "0 $2" ] || fail "${*:3}: exit status $job_status: $output"
    fi
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
        use "$pod" 42 python3 -c 'print(6*7)'
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
    [[ ${runtime_class:-x} =~ ^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$ ]] || bad_usage
    [ -z "$controller" ] || controller=$(cd "$CALLER_DIRECTORY" && realpath -- "$controller") || exit 69
}

main() {
    parse_options "$@"
    check_options
    check_cluster_tools
    prepare
    find_cluster
    build_all
    build_tester
    create_cluster
    load "$ID:default"
    load "$ID:tester"
    install_controller
    prepare_namespace

    start_sandbox sandbox-runtime sandbox.yaml
    pod=$(pod_of sandbox-runtime)
    test_sandbox "$pod"
    try_forward "$pod"
    test_forwarded
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
