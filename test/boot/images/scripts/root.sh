#!/usr/bin/env bash
# Makes the root file system of an Ubuntu server, from Ubuntu's archive: OUT/root.tar. Beside it, the containerd that Ubuntu 24.04
# was released with: OUT/containerd-1.7.
# root.sh OUT
set -euo pipefail
out=$1
archive=http://archive.ubuntu.com/ubuntu
retries='Acquire::Retries "5"'
keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
if [[ ! -e $keyring ]]; then
  # Debian has Ubuntu's keys in a package too, since Debian 13. Its own keys vouch for it.
  mmdebstrap --mode=root --aptopt="$retries" --variant=extract --include=ubuntu-keyring trixie "$out/keys" http://deb.debian.org/debian
  keyring=$out/keys$keyring
fi

packages=(
  systemd systemd-sysv systemd-resolved dbus udev linux-image-virtual initramfs-tools cloud-init netplan.io openssh-server
  ca-certificates curl kmod procps iproute2 mount util-linux e2fsprogs cloud-guest-utils sudo less login passwd libpam-systemd
  dbus-user-session openssl netbase tzdata
  containerd runc containernetworking-plugins iptables nftables socat conntrack ethtool
)
make() { # VARIANT INCLUDED SUITE TARGET SOURCE..
  local variant=$1 included=$2 suite=$3 target=$4
  shift 4
  mmdebstrap --mode=root --aptopt="$retries" --variant="$variant" --keyring="$keyring" --include="$included" \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' "$suite" "$target" "$@"
}
release="deb $archive noble main universe"
make minbase "$(IFS=, && echo "${packages[*]}")" noble "$out/root.tar" "$release" "deb $archive noble-updates main universe"
make extract containerd noble "$out/older" "$release"
mkdir "$out/containerd-1.7"
cp "$out"/older/usr/bin/{containerd,containerd-shim-runc-v2,ctr} "$out/containerd-1.7"
rm -rf "$out/older" "$out/keys"
