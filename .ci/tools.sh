#!/usr/bin/env bash
# Installs the tools that .ci/run needs and starts a Docker engine. Fast if everything is installed.
#   .ci/tools.sh         all of it
#   .ci/tools.sh cargo   only the Rust targets and the tools in .ci/tools.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(binutils busybox-static curl git python3-venv qemu-user-static shellcheck strace valgrind)
command -v dockerd >/dev/null || PACKAGES+=(docker.io iptables)
TOOLS=(cargo-deny cargo-fuzz cargo-nextest cargo-shear just ruff taplo typos zizmor)
ACTIONLINT=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
RUNSC=gvisor.dev/gvisor/runsc@v0.0.0-20260224225140-573d5e7127a8 # gVisor
LOG=/var/log/sandbox-runtime-ci-dockerd.log
ENGINE_CONFIG=/etc/docker/daemon.json
ENGINE_PID=/var/run/docker.pid
BIN=${CARGO_HOME:-$HOME/.cargo}/bin # on the PATH of Rust developers

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
    apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" >/dev/null
}

install_targets() {
    local target
    for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
        [ -d "$(rustc --print target-libdir --target "$target")" ] || rustup target add "$target"
    done
}

# Prebuilt wheels: compiling these tools takes more than ten minutes. Versions installed by the user are kept.
install_tools() {
    local python tool
    python=$(.ci/venv.sh tools --no-deps --require-hashes --requirement .ci/tools.txt)
    mkdir -p "$BIN"
    for tool in "${TOOLS[@]}"; do
        command -v "$tool" >/dev/null || ln -sf "${python%/*}/$tool" "$BIN/$tool"
    done
}

install_actionlint() {
    if command -v actionlint >/dev/null; then return; fi
    if command -v go >/dev/null; then
        echo 'installing actionlint'
        GOBIN=$BIN go install "$ACTIONLINT"
    fi
}

install_runsc() {
    local build
    if ! command -v go >/dev/null; then
        echo 'SKIPPED: runsc (installed with Go, which is missing)'
        return
    fi
    build=$(go version -m "$BIN/runsc" 2>/dev/null) || build=''
    if [[ $build != *"${RUNSC#*@}"*CGO_ENABLED=0* ]]; then
        echo 'installing runsc'
        # A static program: it executes itself in an empty root directory.
        CGO_ENABLED=0 GOBIN=$BIN go install "$RUNSC"
    fi
    configure_runsc
}

# Adds the runtime `runsc` to the configuration of the engine and keeps every other key.
configure_runsc() {
    mkdir -p "${ENGINE_CONFIG%/*}"
    python3 - "$ENGINE_CONFIG" "$BIN/runsc" <<'END'
import json, os, sys

file, runsc = sys.argv[1:]
try:
    with open(file) as current:
        config = json.loads(current.read() or "{}")
except FileNotFoundError:
    config = {}
runtime = config.setdefault("runtimes", {}).setdefault("runsc", {})
if runtime.get("path") != runsc:
    runtime["path"] = runsc
    with open(f"{file}.new", "w") as replacement:
        json.dump(config, replacement, indent=4)
    os.replace(f"{file}.new", file)
END
}

knows_runsc() {
    docker info --format '{{range $name, $_ := .Runtimes}}{{println $name}}{{end}}' | grep --quiet '^runsc$'
}

# A running engine reads its configuration again after SIGHUP.
reload_engine() {
    local pid attempt
    if ! [ -x "$BIN/runsc" ] || knows_runsc; then return; fi
    pid=$(cat "$ENGINE_PID" 2>/dev/null) || pid=''
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]; then
        kill -HUP "$pid"
        for ((attempt = 0; attempt < 50; attempt++)); do
            knows_runsc && return
            sleep 0.1
        done
    fi
    echo "SKIPPED: runsc (the Docker engine has not read $ENGINE_CONFIG)"
}

# An engine that was killed leaves pid files, and the pids may belong to other processes now.
remove_stale_pid_file() { # FILE PROGRAM
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || rm -f "$1"
}

start_engine() {
    local attempt
    docker info >/dev/null 2>&1 && return
    echo "starting the Docker engine (log: $LOG)"
    remove_stale_pid_file "$ENGINE_PID" dockerd
    remove_stale_pid_file /var/run/docker/containerd/containerd.pid containerd
    setsid dockerd >"$LOG" 2>&1 </dev/null &
    for ((attempt = 0; attempt < 150; attempt++)); do
        docker info >/dev/null 2>&1 && return
        sleep 0.2
    done
    tail -n 30 "$LOG" >&2
    echo 'tools.sh: the Docker engine did not start within 30 s' >&2
    exit 1
}

[ "${1:-}" = cargo ] || install_packages
install_targets
install_tools
[ "${1:-}" != cargo ] || exit 0
install_actionlint
install_runsc
start_engine
reload_engine
docker version --format 'docker client {{.Client.Version}}, engine {{.Server.Version}}'
