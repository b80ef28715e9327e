#!/usr/bin/env bash
# Builds the static binary, packs it into images FROM scratch, starts a container under the strictest
# flags, runs the tester against it and removes everything. Needs bash, coreutils, Docker, and either
# cargo or network access to pull a builder image.
set -euo pipefail

usage() {
    cat <<END
usage: run-test-docker.sh [--keep] [--runtime NAME] [--toolbox IMAGE] [--builder IMAGE]

  --keep            keep the container running and print how to reach it
  --runtime NAME    run the container with this runtime of the Docker engine, for example runsc (gVisor)
  --toolbox IMAGE   copy the static programs in /bin from IMAGE
                    (default: $TOOLBOX, or the static busybox of this machine if that cannot be pulled)
  --builder IMAGE   build inside IMAGE even if cargo is installed (default without cargo: $BUILDER)
  --help            print this help

Exit status: the tester's; 64 invalid option; 69 missing prerequisite; 128+N signal N.
END
}

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$ROOT"
HEALTHY_WITHIN=30 # seconds
TOOLBOX=busybox:stable-musl
# rust-toolchain.toml is the only file that names the compiler's version.
while IFS='"' read -r key value _; do
    if [ "$key" = 'channel = ' ]; then BUILDER=rust:$value-alpine TOOLCHAIN=$value; fi
done <rust-toolchain.toml

ID=sandbox-runtime-test-$$-$RANDOM # the name of the containers and images of this run
WORK=''                            # the temporary directory
child='' uninterruptible=''        # the process that `run` waits for
kept=''                            # set if cleanup must keep the container
missing=()                         # missing prerequisites

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Runs a command in its own process group and waits for it, so that a trap runs at once: bash delays
# traps until a foreground command has ended. Ctrl-C reaches the process group of this script only.
run() {
    local status=0
    set -m
    "$@" </dev/null &
    child=$!
    set +m
    wait "$child" || status=$?
    child=''
    return "$status"
}

# The same for short steps that create objects in the engine. A signal does not interrupt them: the
# engine would finish the step without its client, after cleanup. Prints the output only on failure.
quietly() {
    local status=0
    uninterruptible=yes
    run "$@" >"$WORK/output" 2>&1 || status=$?
    uninterruptible=''
    [ "$status" = 0 ] || cat "$WORK/output" >&2
    return "$status"
}

cleanup() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT
    stop_child
    case $status in
    0 | 129 | 130 | 143) ;;
    *) show_log ;;
    esac
    if [ -z "$kept" ]; then
        say 'cleaning up'
        # Containers first: an image in use cannot be removed.
        discard rm --force --volumes "$ID" "$ID-build"
        discard rmi --force "$ID:default" "$ID:runtime"
    fi
    discard rmi --force "$ID:toolbox"
    [ -z "$WORK" ] || rm -rf "$WORK"
    [ -z "$kept" ] || explain
    exit "$status"
}
discard() { run docker "$@" >/dev/null 2>&1 || true; } # the object may not exist

stop_child() {
    local pid=$child
    [ -n "$pid" ] || return 0
    if [ -z "$uninterruptible" ]; then
        kill -TERM -- "-$pid" 2>/dev/null || true
        discard rm --force "$ID-build" # `docker run` waits for the end of the build otherwise
    fi
    wait "$pid" 2>/dev/null || true
    child=''
}

show_log() {
    docker container inspect "$ID" >/dev/null 2>&1 || return 0
    echo "---- container log"
    docker logs --tail 100 "$ID" 2>&1 || true
    echo '----'
}

check_tools() {
    local architecture=''
    if ! command -v docker >/dev/null; then
        missing+=('docker (https://docs.docker.com/engine/install; Debian: apt-get install docker.io)')
    elif ! architecture=$(docker version --format '{{.Server.Arch}}' 2>&1); then
        missing+=("a running Docker engine that this user may use (docker:${architecture//$'\n'/ })")
    fi
    case $architecture in
    amd64) TARGET=x86_64-unknown-linux-musl ;;
    arm64) TARGET=aarch64-unknown-linux-musl ;;
    *) TARGET='' ;;
    esac
    [ ${#missing[@]} != 0 ] || check_runtime
    [ -n "$builder" ] || usable_cargo || builder=$BUILDER
    if [ ${#missing[@]} != 0 ]; then
        printf "${0##*/}: missing: %s\n" "${missing[@]}" >&2
        if [ -n "$builder" ]; then
            echo "(cargo is not usable either (https://rustup.rs); $builder would be used instead.)" >&2
        fi
        exit 69
    fi
    [ -n "$TARGET" ] || fail "the Docker engine runs on $architecture, which is not supported"
}

check_runtime() {
    local known
    [ -n "$runtime" ] || return 0
    known=$(docker info --format '{{range $name, $_ := .Runtimes}}{{println $name}}{{end}}')
    [[ $'\n'$known$'\n' == *$'\n'"$runtime"$'\n'* ]] ||
        missing+=("the runtime $runtime (the Docker engine has: ${known//$'\n'/ })")
}

# The cargo of a distribution often has neither rustup nor the musl target.
usable_cargo() {
    local library
    command -v cargo >/dev/null && command -v rustc >/dev/null || return 1
    [ -n "$TARGET" ] || return 0
    library=$(rustc --print target-libdir --target "$TARGET" 2>/dev/null) || library=''
    [ -d "$library" ] || command -v rustup >/dev/null
}

build_with_cargo() {
    local out=${CARGO_TARGET_DIR:-target}
    say "building the static binary and the tester with cargo ($TARGET)"
    [ -d "$(rustc --print target-libdir --target "$TARGET")" ] || run rustup target add "$TARGET"
    run cargo build --locked --target-dir "$out" --release --target "$TARGET" --package sandbox-runtime
    run cargo build --locked --target-dir "$out" --package tester
    install -m 0555 "$out/$TARGET/release/sandbox-runtime" "$WORK/sandbox-runtime"
}

build_in_container() {
    say "building the static binary and the tester inside $builder ($TARGET)"
    mkdir -p target/builder
    run docker run --rm --name "$ID-build" --user "$(id -u):$(id -g)" \
        --volume "$ROOT:/source" --workdir /source \
        --env CARGO_HOME=/source/target/builder/cargo --env RUSTUP_TOOLCHAIN="$TOOLCHAIN" "$builder" \
        cargo build --locked --target-dir target/builder --release --target "$TARGET" \
        --package sandbox-runtime --package tester
    install -m 0555 "target/builder/$TARGET/release/sandbox-runtime" "$WORK/sandbox-runtime"
}

# The engine's builder also pulls missing images, but then the pull cannot be interrupted.
fetch() { docker image inspect "$1" >/dev/null 2>&1 || run docker pull "$1"; }

choose_toolbox() {
    if [ -n "$toolbox" ]; then
        fetch "$toolbox" || fail "image $toolbox does not exist locally and cannot be pulled"
    elif fetch "$TOOLBOX" 2>/dev/null; then
        toolbox=$TOOLBOX
    else
        say "$TOOLBOX cannot be pulled; building a toolbox image from the busybox of this machine"
        toolbox=$ID:toolbox
        TMPDIR=$WORK quietly .ci/toolbox-image.sh "$toolbox"
    fi
}

build_image() { # NAME [OPTION...]
    local image=$1 size
    shift
    quietly docker build --file Dockerfile.scratch --tag "$image" \
        --build-arg BINARY=sandbox-runtime "$@" "$WORK"
    size=$(docker image inspect --format '{{.Size}}' "$image")
    say "built $image: $((size / 1024)) KiB"
}

build_all() {
    if [ -z "$builder" ]; then build_with_cargo; else build_in_container; fi
    choose_toolbox
    build_image "$ID:runtime" --target runtime
    build_image "$ID:default" --build-arg TOOLBOX="$toolbox"
}

start() {
    say "starting $ID${runtime:+ with $runtime}: read-only, no capabilities, no new privileges," \
        '256 MiB, 256 processes'
    quietly docker run --detach --name "$ID" ${runtime:+--runtime "$runtime"} --publish 127.0.0.1::8888 \
        --read-only --tmpfs /app:rw,exec,nosuid,nodev,size=64m,uid=1000,gid=1000,mode=0755 \
        --tmpfs /tmp:rw,exec,nosuid,nodev,size=64m,mode=1777 \
        --cap-drop ALL --security-opt no-new-privileges --memory 256m --pids-limit 256 \
        --health-interval 1s "$ID:default"
}

wait_until_healthy() {
    local status code health deadline=$((SECONDS + HEALTHY_WITHIN))
    while true; do
        read -r status code health < <(docker container inspect "$ID" \
            --format '{{.State.Status}} {{.State.ExitCode}} {{.State.Health.Status}}') ||
            fail 'the container was removed'
        [ "$status" = running ] || fail "the container is $status, not running; exit code $code"
        [ "$health" != healthy ] || break
        [ "$SECONDS" -lt "$deadline" ] || fail "the container is not healthy after $HEALTHY_WITHIN s"
        sleep 0.1
    done
    port=$(docker port "$ID" 8888/tcp)
    port=${port##*:}
    say "healthy, at 127.0.0.1:$port"
}

test_container() {
    say 'running the tester'
    if [ -z "$builder" ]; then
        run cargo run --quiet --locked --target-dir "${CARGO_TARGET_DIR:-target}" --package tester -- \
            127.0.0.1 "$port"
    else
        run docker run --rm --name "$ID-build" --network "container:$ID" --volume "$ROOT:/source:ro" \
            "$builder" "/source/target/builder/$TARGET/release/tester" 127.0.0.1 8888
    fi
}

explain() {
    cat <<END

$ID keeps running. To send it requests:
    curl -s http://127.0.0.1:$port/execute -H 'Content-Type: application/json' -d '{"command": "ls -la /"}'
    cargo run -q -p tester -- 127.0.0.1 $port -- ls -la /
    docker logs $ID
To remove it:
    docker rm -f $ID && docker rmi $ID:default $ID:runtime
kept $ID 127.0.0.1:$port
END
}

SWITCHES=(keep) VALUED=(runtime toolbox builder)
keep='' runtime='' toolbox='' builder=''

# Each option sets the variable of its name, with "_" for "-".
parse_options() {
    local name
    while [ $# != 0 ]; do
        name=${1#--} name=${name//-/_}
        if [ "$1" = --help ] || [ "$1" = -h ]; then
            usage
            exit
        elif [[ ! $1 =~ ^--[a-z-]+$ ]]; then
            bad_usage
        elif [[ " ${SWITCHES[*]} " == *" $name "* ]]; then
            printf -v "$name" yes
        elif [[ " ${VALUED[*]} " == *" $name "* && -n ${2:-} ]]; then
            printf -v "$name" %s "$2"
            shift
        else
            bad_usage
        fi
        shift
    done
}
bad_usage() {
    usage >&2
    exit 64
}

prepare() {
    trap cleanup EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    WORK=$(mktemp -d)
}

main() {
    local status=0
    parse_options "$@"
    check_tools
    prepare
    build_all
    start
    wait_until_healthy
    test_container || status=$?
    if [ "$status" = 0 ]; then say 'passed'; else say "FAILED: the tester exited with status $status"; fi
    kept=$keep
    return "$status"
}

# run-test-kind.sh sources this file for its functions.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
