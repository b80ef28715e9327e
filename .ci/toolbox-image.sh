#!/usr/bin/env bash
# Builds a toolbox image for Dockerfile.scratch from the static busybox of this machine, where no image
# can be pulled:   .ci/toolbox-image.sh NAME [BUSYBOX]
set -euo pipefail

name=${1:?usage: toolbox-image.sh NAME [BUSYBOX]}
busybox=${2:-$(command -v busybox || true)}
if [ -z "$busybox" ]; then
    echo "toolbox-image.sh: busybox is missing (Debian: apt-get install busybox-static)" >&2
    exit 69
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/bin"
cp "$busybox" "$context/bin/busybox"
for applet in $("$busybox" --list); do
    [ "$applet" = busybox ] || ln -s busybox "$context/bin/$applet"
done
printf 'FROM scratch\nCOPY bin /bin\n' >"$context/Dockerfile"
docker build --quiet --tag "$name" "$context" >/dev/null

# A dynamically linked busybox would fail much later, with "no such file".
if ! docker run --rm --network none "$name" /bin/true; then
    docker rmi "$name" >/dev/null
    echo "toolbox-image.sh: $busybox is not static (Debian: apt-get install busybox-static)" >&2
    exit 69
fi
