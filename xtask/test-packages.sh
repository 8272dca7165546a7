#!/bin/sh
# Installs each Linux package of this machine's architecture in a root directory without a compiler, and asks it:
#
#   sh xtask/test-packages.sh target/dist [ROOT]
#
# It runs as root. Without ROOT it makes one with debootstrap.
set -eu

packages=$(realpath "$1")
root=${2:-}
if [ -z "$root" ]; then
    root=$(mktemp -d)
    trap 'umount "$root/proc" "$root/dev" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
    debootstrap --variant=minbase bookworm "$root"
    cp /etc/resolv.conf "$root/etc/"
fi
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
if ! [ -x "$root/usr/bin/npm" ]; then
    chroot "$root" apt-get update
    chroot "$root" env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends nodejs npm python3-venv
fi

if chroot "$root" sh -c 'command -v cc || command -v gcc || command -v clang || command -v cargo' >/dev/null; then
    echo "there is a compiler in $root: the test would prove nothing" >&2
    exit 1
fi

mkdir -p "$root/packages"
cp "$packages"/doran* "$root/packages/"
case $(uname -m) in
    x86_64) deb=amd64 wheel=x86_64 npm=x64 ;;
    aarch64) deb=arm64 wheel=aarch64 npm=arm64 ;;
esac

# Runs a line in the root with an empty home, and the demo with the program that the line names.
inside() {
    rm -rf "$root/home/user"
    mkdir -p "$root/home/user"
    chroot "$root" env -i HOME=/home/user PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$1"
}

answers() {
    name=$1
    shift
    begun=$(date +%s%N)
    inside "$* demo --once --lang en" >"$root/answer" 2>&1 || {
        cat "$root/answer" >&2
        exit 1
    }
    ended=$(date +%s%N)
    grep -q 'Invoices are due within 60 days of receipt' "$root/answer" || {
        cat "$root/answer" >&2
        exit 1
    }
    echo "$name: answers in $(((ended - begun) / 1000000)) ms"
}

inside "cd /packages && tar -xzf doran-*-$(uname -m)-unknown-linux-musl.tar.gz -C /opt"
answers archive /opt/doran-*/doran

inside "dpkg --install /packages/doran_*_$deb.deb"
answers 'Debian package' doran
inside "dpkg --verify doran && getent passwd doran && test -f /usr/lib/systemd/system/doran.service" >/dev/null
inside "dpkg --purge doran"

inside "python3 -m venv /opt/venv && /opt/venv/bin/pip install --quiet --no-index /packages/doran-*$wheel*.whl"
answers wheel /opt/venv/bin/doran

# npm looks for the packages of other platforms in the registry, which has none of this version.
inside "npm install --silent --offline --omit=optional --global --prefix /opt/npm /packages/doran-[0-9]*[0-9].tgz /packages/doran-linux-$npm-*.tgz"
answers npm /opt/npm/bin/doran
