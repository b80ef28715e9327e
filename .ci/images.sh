#!/usr/bin/env bash
# Checks the contents, the configuration and the size of the images that `run-test-docker.sh --keep` built as
# NAME:runtime and NAME:default, and runs those that it does not run:   .ci/images.sh NAME
set -euo pipefail

name=${1:?usage: images.sh NAME}
binary=${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-musl/release/sandbox-runtime
ID=sandbox-runtime-ci-$$ # the name of the containers and images of this script
WORK=$(mktemp -d)
STRICT=(--read-only --tmpfs '/app:rw,exec,nosuid,nodev,size=64m,uid=1000,gid=1000,mode=0755'
    --tmpfs '/tmp:rw,exec,nosuid,nodev,size=64m,mode=1777' --cap-drop ALL --security-opt no-new-privileges
    --memory 256m --pids-limit 256 --health-interval 1s --publish 127.0.0.1::8888)

fail() {
    echo "images.sh: $*" >&2
    docker logs "$ID" 2>&1 || true
    exit 1
}
cleanup() {
    local image
    docker rm --force --volumes "$ID" >/dev/null 2>&1 || true
    for image in buildkit python python-base; do docker rmi --force "$ID:$image" >/dev/null 2>&1 || true; done
    rm -rf "$WORK"
}
trap cleanup EXIT

below() { # IMAGE BYTES
    local size
    size=$(docker image inspect --format '{{.Size}}' "$1")
    [ "$size" -lt "$2" ] || fail "$1 has $size bytes; the limit is $2"
    echo "$1: $size bytes, below $2"
}

# The root filesystem of an image, as "mode owner name", without the files that the engine adds.
contents() { # IMAGE
    docker create --name "$ID" "$1" >/dev/null
    docker export "$ID" | tar --list --verbose --numeric-owner | while read -r mode owner _ _ _ path _; do
        case $path in
        .dockerenv | dev/* | proc/* | sys/* | etc/ | etc/hostname | etc/hosts | etc/mtab | etc/resolv.conf) ;;
        *) echo "$mode $owner $path" ;;
        esac
    done
    docker rm "$ID" >/dev/null
}

same() { # NAME EXPECTED ACTUAL
    [ "$2" = "$3" ] || fail "$1: expected
$2
got
$3"
    echo "$1: as expected"
}

# Runs IMAGE with the same flags as run-test-docker.sh and sets $port.
start() { # IMAGE
    local health='' deadline=$((SECONDS + 30))
    local format='{{if .State.Running}}{{.State.Health.Status}}{{else}}exited{{end}}'
    docker run --detach --name "$ID" "${STRICT[@]}" "$1" >/dev/null
    until [ "$health" = healthy ]; do
        health=$(docker inspect --format "$format" "$ID")
        [ "$health" != exited ] || fail "$1 exited"
        [ "$SECONDS" -lt "$deadline" ] || fail "$1 is not healthy after 30 s"
        sleep 0.1
    done
    port=$(docker port "$ID" 8888/tcp)
    port=${port##*:}
}

# Memory (PSS) of both processes of a new container.
resident_below() { # KIB
    local pid kib total=0
    for pid in $(docker top "$ID" -o pid | tail -n +2); do
        kib=$(sed -n 's/^Pss: *\([0-9]*\) kB$/\1/p' "/proc/$pid/smaps_rollup")
        total=$((total + kib))
    done
    [ "$total" -lt "$1" ] || fail "$total KiB resident while idle; the limit is $1"
    echo "$total KiB resident while idle, below $1"
}

stops_in_time() { # IMAGE
    local code
    docker stop --time 5 "$ID" >/dev/null
    code=$(docker inspect --format '{{.State.ExitCode}}' "$ID")
    [ "$code" != 137 ] || fail "$1 does not exit within 5 s of docker stop"
    echo "docker stop: exit code $code"
    docker rm "$ID" >/dev/null
}

build() { # CLIENT TAG OPTION...
    local client=$1 tag=$2
    shift 2
    "$client" build --quiet --file Dockerfile.scratch --tag "$tag" \
        --build-arg BINARY=sandbox-runtime "$@" "$WORK" >/dev/null
}

# A client with BuildKit: built in or with buildx.
buildkit_client() {
    local client
    for client in docker /usr/bin/docker; do
        if printf 'FROM scratch\nLABEL probe=yes\n' |
            DOCKER_BUILDKIT=1 "$client" build --quiet - >/dev/null 2>&1; then
            echo "$client"
            return
        fi
    done
}

below "$name:runtime" $((1024 * 1024))
below "$name:default" $((3 * 1024 * 1024))

bare='drwxr-xr-x 1000/1000 app/
-r-xr-xr-x 0/0 sandbox-runtime'
same 'contents of the runtime image' "$bare" "$(contents "$name:runtime")"
contents "$name:default" >"$WORK/default"
same 'contents of the default image outside /bin' "$bare" "$(grep -v ' bin/' "$WORK/default")"
for applet in sh ls echo cat sleep; do
    grep -q " 0/0 bin/$applet$" "$WORK/default" || fail "the default image has no $applet"
done

format='{{.User}} {{json .Entrypoint}} {{json .Healthcheck.Test}} {{.WorkingDir}} {{json .ExposedPorts}}'
config='1000:1000 ["/sandbox-runtime"] ["CMD","/sandbox-runtime","healthcheck"] /app {"8888/tcp":{}}'
same 'image configuration' "$config" \
    "$(docker image inspect --format "{{with .Config}}$format{{end}}" "$name:default")"

start "$name:runtime"
resident_below 1536
stops_in_time "$name:runtime"

install -m 0555 "$binary" "$WORK/sandbox-runtime"
client=$(buildkit_client)
if [ -n "$client" ]; then
    DOCKER_BUILDKIT=1 build "$client" "$ID:buildkit" --target runtime
    same 'contents of the runtime image built by BuildKit' "$bare" "$(contents "$ID:buildkit")"
else
    echo 'SKIPPED: BuildKit is missing; only the classic builder was tested'
fi

.ci/python-image.sh "$ID:python-base"
build docker "$ID:python" --target runtime --build-arg BASE="$ID:python-base" 2>/dev/null
start "$ID:python"
code='import hashlib, sys; print(sys.version_info.major, sum(range(10)), hashlib.sha256(b"").hexdigest()[:8])'
same 'output of Python' '3 45 e3b0c442' \
    "$(cargo run --quiet --locked --package tester -- 127.0.0.1 "$port" -- python3 -c "$code")"
