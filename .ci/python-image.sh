#!/usr/bin/env bash
# Makes a small Python image out of Debian's packages, to stand for python:3.14-slim as a BASE of
# Dockerfile.scratch where no image can be pulled:   .ci/python-image.sh NAME
# It has no shell, which also shows that a BASE needs none.
set -euo pipefail

name=${1:?usage: python-image.sh NAME}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/root"

apt-cache show python3-minimal >/dev/null 2>&1 || apt-get update --quiet=2
# python3-minimal, what it depends on, and what that does; virtual packages come in <>.
needed=$(apt-cache depends --recurse --important python3-minimal | grep '^[a-z]' | sort -u)
download() (
    cd "$work/debs"
    # shellcheck disable=SC2086 # one word a package
    apt-get download --quiet=2 --option APT::Sandbox::User=root $needed
)
# Lists that are too old name packages that are gone.
download || { apt-get update --quiet=2 && download; }
for package in "$work"/debs/*.deb; do
    dpkg-deb --extract "$package" "$work/root"
done

# A CMD, as python:* has one: it must not reach the runtime as arguments.
tar --directory "$work/root" --create . | docker import --change 'CMD ["python3"]' - "$name" >/dev/null
