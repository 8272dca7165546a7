#!/bin/sh
# Builds the image of deploy/Dockerfile with podman, and asks it with the restrictions of deploy/compose.yaml:
#
#   sh xtask/test-image.sh
#
# It runs as root after `cargo xtask dist`, and needs podman and runc. If no registry can be reached, it makes the Debian
# image with debootstrap.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."

STORAGE_DRIVER=vfs
export STORAGE_DRIVER
base=docker.io/library/debian:12-slim
# Building finds an unqualified name only under localhost.
here=localhost/debian:12-slim

if ! podman image exists "$here"; then
    if podman pull --quiet "$base" 2>/dev/null; then
        podman tag "$base" "$here"
    else
        root=$(mktemp -d)
        trap 'rm -rf --one-file-system "$root"' EXIT
        debootstrap --variant=minbase bookworm "$root" >&2
        tar --create --directory "$root" . | podman import --quiet - "$here" >&2
    fi
fi
podman build --quiet --isolation chroot --network host --pull=never --file deploy/Dockerfile --tag doran . >/dev/null
echo "image: $(podman image inspect --format '{{.Size}}' doran) bytes"

podman --runtime runc --cgroup-manager cgroupfs run --rm --network host --ulimit nofile=1024:4096 --ulimit nproc=4096:4096 \
    --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges doran demo --once --lang en |
    grep 'Invoices are due within 60 days of receipt'
