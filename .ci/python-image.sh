#!/usr/bin/env bash
# Builds a small Python image from Debian packages, as the BASE of Dockerfile.scratch where python:3.14-slim
# cannot be pulled:   .ci/python-image.sh NAME
# It has no shell, which also tests that a BASE needs none.
set -euo pipefail

name=${1:?usage: python-image.sh NAME}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/root"

apt-cache show python3-minimal >/dev/null 2>&1 || apt-get update --quiet=2
# python3-minimal and its transitive dependencies, without virtual packages (printed in <>).
needed=$(apt-cache depends --recurse --important python3-minimal | grep '^[a-z]' | sort -u)
download() (
    cd "$work/debs"
    # shellcheck disable=SC2086 # one argument per package
    apt-get download --quiet=2 --option APT::Sandbox::User=root $needed
)
# Outdated lists name packages that no longer exist.
download || { apt-get update --quiet=2 && download; }
for package in "$work"/debs/*.deb; do
    dpkg-deb --extract "$package" "$work/root"
done

# A CMD like that of python:*. It must not reach the runtime as arguments.
tar --directory "$work/root" --create . | docker import --change 'CMD ["python3"]' - "$name" >/dev/null
