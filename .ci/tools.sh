#!/usr/bin/env bash
# Installs what .ci/run needs and starts a Docker engine. Quick where all of it is there already.
#   .ci/tools.sh        all of it
#   .ci/tools.sh fuzz   what .ci/fuzz.sh needs, and no engine
set -euo pipefail

PACKAGES=(binutils busybox-static curl docker.io git python3-venv qemu-user-static shellcheck strace valgrind)
LOG=/var/log/sandbox-runtime-ci-dockerd.log

install_packages() {
    local missing=() package
    for package in "${PACKAGES[@]}"; do
        [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            missing+=("$package")
    done
    [ ${#missing[@]} != 0 ] || return 0
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet=2
    apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" iptables >/dev/null
}

install_targets() {
    local target
    for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
        [ -d "$(rustc --print target-libdir --target "$target")" ] || rustup target add "$target"
    done
}

install_cargo_tool() { # NAME VERSION
    command -v "$1" >/dev/null && return
    echo "installing $1"
    # --debug: it runs for a second, and compiles in half the time. Nobody debugs it.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$2" "$1"
}

# An engine that was killed leaves files with the numbers of processes, which may be others' by now.
forget_stale() { # FILE PROGRAM
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || rm -f "$1"
}

start_engine() {
    local attempt
    docker info >/dev/null 2>&1 && return
    echo "starting the Docker engine (its log: $LOG)"
    forget_stale /var/run/docker.pid dockerd
    forget_stale /var/run/docker/containerd/containerd.pid containerd
    setsid dockerd >"$LOG" 2>&1 </dev/null &
    for ((attempt = 0; attempt < 150; attempt++)); do
        docker info >/dev/null 2>&1 && return
        sleep 0.2
    done
    tail -n 30 "$LOG" >&2
    echo 'tools.sh: the Docker engine did not come up within 30 s' >&2
    exit 1
}

install_fuzz() { install_cargo_tool cargo-fuzz 0.13.2; }

if [ "${1:-}" = fuzz ]; then
    install_fuzz
    exit
fi
install_packages
install_targets
install_cargo_tool cargo-deny 0.20.2
! rustup run nightly cargo --version >/dev/null 2>&1 || install_fuzz
start_engine
docker version --format 'docker client {{.Client.Version}}, engine {{.Server.Version}}'
