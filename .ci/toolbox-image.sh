#!/usr/bin/env bash
# Makes a toolbox image for Dockerfile.scratch out of a static busybox of this machine,
# for places that cannot pull one:   .ci/toolbox-image.sh NAME [BUSYBOX]
set -euo pipefail

name=${1:?usage: toolbox-image.sh NAME [BUSYBOX]}
busybox=${2:-$(command -v busybox || true)}
if [ -z "$busybox" ]; then
    echo "toolbox-image.sh: no busybox here (Debian: apt-get install busybox-static)" >&2
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

# A busybox that is linked to libraries would only be noticed much later, as "no such file".
if ! docker run --rm --network none "$name" /bin/true; then
    docker rmi "$name" >/dev/null
    echo "toolbox-image.sh: $busybox is not a static one (Debian: apt-get install busybox-static)" >&2
    exit 69
fi
