#!/usr/bin/env bash
# Builds the static binary, packs it into images FROM scratch, starts a container under the hardest
# flags, lets the tester talk to it, and cleans everything away. Needs bash, coreutils, Docker, and
# either cargo or network access to pull a builder image.
set -euo pipefail

usage() {
    cat <<END
usage: run-test-docker.sh [--keep] [--toolbox IMAGE] [--builder IMAGE]

  --keep            leave the container running afterwards and print how to talk to it
  --toolbox IMAGE   take the static programs in /bin from IMAGE
                    (default: $TOOLBOX, else this machine's own static busybox)
  --builder IMAGE   build inside IMAGE even where there is a cargo (default without one: $BUILDER)
  --help            print this

Exit status: the tester's; 64 wrong option; 69 something that is needed is missing; 128+N signal N.
END
}

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$ROOT"
HEALTHY_WITHIN=30 # seconds
TOOLBOX=busybox:stable-musl
# One place names the compiler's version.
while IFS='"' read -r key value _; do
    if [ "$key" = 'channel = ' ]; then BUILDER=rust:$value-alpine TOOLCHAIN=$value; fi
done <rust-toolchain.toml

ID=sandbox-runtime-test-$$-$RANDOM # the name of everything that this run leaves with Docker
WORK=''                            # our temporary directory
child='' unbreakable=''             # what `run` waits for
kept=''                            # set once the container is to stay
missing=()                         # what is needed and not there

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Runs a command in a process group of its own and waits for it, so that a signal is acted on at
# once: bash would finish a command in the foreground first, and Ctrl-C reaches only our own group.
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

# The same for short steps that leave something with Docker. They are let finish even when we are to
# stop: the engine would do its part after its client is gone, and after we have cleaned up. What
# they print interests only when they fail.
quietly() {
    local status=0
    unbreakable=yes
    run "$@" >"$WORK/output" 2>&1 || status=$?
    unbreakable=''
    [ "$status" = 0 ] || cat "$WORK/output" >&2
    return "$status"
}

cleanup() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT
    if [ -n "$child" ]; then
        local awaited=$child
        if [ -z "$unbreakable" ]; then
            kill -TERM -- "-$awaited" 2>/dev/null || true
            discard rm --force "$ID-build" # or its client would wait for the end of the build
        fi
        wait "$awaited" 2>/dev/null || true
    fi
    case $status in
    0 | 129 | 130 | 143) ;;
    *) show_log ;;
    esac
    if [ -z "$kept" ]; then
        say 'cleaning up'
        # Images go after their containers.
        discard rm --force --volumes "$ID" "$ID-build"
        discard rmi --force "$ID:default" "$ID:runtime"
    fi
    discard rmi --force "$ID:toolbox"
    [ -z "$WORK" ] || rm -rf "$WORK"
    [ -z "$kept" ] || explain
    exit "$status"
}
discard() { run docker "$@" >/dev/null 2>&1 || true; } # often there is nothing to discard

show_log() {
    docker container inspect "$ID" >/dev/null 2>&1 || return 0
    echo "---- the container's log"
    docker logs --tail 100 "$ID" 2>&1 || true
    echo '----'
}

check_tools() {
    local architecture=''
    if ! command -v docker >/dev/null; then
        missing+=('docker, the client (https://docs.docker.com/engine/install; Debian: apt-get install docker.io)')
    elif ! architecture=$(docker version --format '{{.Server.Arch}}' 2>&1); then
        missing+=("a Docker engine that answers (is it started? may you use it? docker says:${architecture//$'\n'/ })")
    fi
    case $architecture in
    amd64) TARGET=x86_64-unknown-linux-musl ;;
    arm64) TARGET=aarch64-unknown-linux-musl ;;
    *) TARGET='' ;;
    esac
    [ -n "$builder" ] || usable_cargo || builder=$BUILDER
    if [ ${#missing[@]} != 0 ]; then
        printf "${0##*/}: missing: %s\n" "${missing[@]}" >&2
        if [ -n "$builder" ]; then
            echo "(There is no usable cargo either (https://rustup.rs), but $builder would be used instead.)" >&2
        fi
        exit 69
    fi
    [ -n "$TARGET" ] || fail "the Docker engine runs on $architecture, for which there is no build yet"
}

# A cargo without rustup and without the musl library, as distributions ship it, is no use to us.
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
    run docker run --rm --name "$ID-build" --user "$(id -u):$(id -g)" --volume "$ROOT:/source" --workdir /source \
        --env CARGO_HOME=/source/target/builder/cargo --env RUSTUP_TOOLCHAIN="$TOOLCHAIN" "$builder" \
        cargo build --locked --target-dir target/builder --release --target "$TARGET" \
        --package sandbox-runtime --package tester
    install -m 0555 "target/builder/$TARGET/release/sandbox-runtime" "$WORK/sandbox-runtime"
}

# The engine's builder would fetch a missing image as well, but could not be stopped then.
fetch() { docker image inspect "$1" >/dev/null 2>&1 || run docker pull "$1"; }

choose_toolbox() {
    if [ -n "$toolbox" ]; then
        fetch "$toolbox" || fail "there is no image $toolbox here, and it cannot be pulled"
    elif fetch "$TOOLBOX" 2>/dev/null; then
        toolbox=$TOOLBOX
    else
        say "$TOOLBOX cannot be pulled; making a toolbox from this machine's busybox"
        toolbox=$ID:toolbox
        TMPDIR=$WORK quietly .ci/toolbox-image.sh "$toolbox"
    fi
}

build_image() { # NAME [OPTION...]
    local image=$1 size
    shift
    quietly docker build --file Dockerfile.scratch --tag "$image" --build-arg BINARY=sandbox-runtime "$@" "$WORK"
    size=$(docker image inspect --format '{{.Size}}' "$image")
    say "packed $image: $((size / 1024)) KiB"
}

start() {
    say "starting $ID: read-only, no capabilities, no new privileges, 256 MiB, 256 processes"
    quietly docker run --detach --name "$ID" --publish 127.0.0.1::8888 \
        --read-only --tmpfs /app:rw,exec,nosuid,nodev,size=64m,uid=1000,gid=1000,mode=0755 \
        --cap-drop ALL --security-opt no-new-privileges --memory 256m --pids-limit 256 \
        --health-interval 1s "$ID:default"
}

wait_until_healthy() {
    local status code health deadline=$((SECONDS + HEALTHY_WITHIN))
    while true; do
        read -r status code health < <(docker container inspect "$ID" \
            --format '{{.State.Status}} {{.State.ExitCode}} {{.State.Health.Status}}') || fail 'the container is gone'
        [ "$status" = running ] || fail "the container is not running but $status, with exit code $code"
        [ "$health" != healthy ] || break
        [ "$SECONDS" -lt "$deadline" ] || fail "the container is not healthy after $HEALTHY_WITHIN s"
        sleep 0.1
    done
    port=$(docker port "$ID" 8888/tcp)
    port=${port##*:}
    say "healthy, at 127.0.0.1:$port"
}

talk() {
    say 'the tester talks to it'
    if [ -z "$builder" ]; then
        run cargo run --quiet --locked --target-dir "${CARGO_TARGET_DIR:-target}" --package tester -- 127.0.0.1 "$port"
    else
        run docker run --rm --name "$ID-build" --network "container:$ID" --volume "$ROOT:/source:ro" "$builder" \
            "/source/target/builder/$TARGET/release/tester" 127.0.0.1 8888
    fi
}

explain() {
    cat <<END

$ID keeps running. Talk to it:
    curl -s http://127.0.0.1:$port/execute -H 'Content-Type: application/json' -d '{"command": "ls -la /"}'
    cargo run -q -p tester -- 127.0.0.1 $port -- ls -la /
    docker logs $ID
and stop it:
    docker rm -f $ID && docker rmi $ID:default $ID:runtime
kept $ID 127.0.0.1:$port
END
}

keep='' toolbox='' builder=''
parse_options() {
    while [ $# != 0 ]; do
        case $1 in
        --keep) keep=yes ;;
        --toolbox | --builder)
            [ -n "${2:-}" ] || bad_usage
            if [ "$1" = --toolbox ]; then toolbox=$2; else builder=$2; fi
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
}
bad_usage() {
    usage >&2
    exit 64
}

main() {
    local verdict=0
    parse_options "$@"
    check_tools
    trap cleanup EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    WORK=$(mktemp -d)

    if [ -z "$builder" ]; then build_with_cargo; else build_in_container; fi
    choose_toolbox
    build_image "$ID:runtime" --target runtime
    build_image "$ID:default" --build-arg TOOLBOX="$toolbox"
    start
    wait_until_healthy
    talk || verdict=$?
    if [ "$verdict" = 0 ]; then say 'passed'; else say "FAILED: the tester ended with $verdict"; fi
    kept=$keep
    return "$verdict"
}

# run-test-kind.sh builds and packs with these functions.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
