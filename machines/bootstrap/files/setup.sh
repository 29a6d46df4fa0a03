#!/usr/bin/env bash
# Makes this host ready to run a kubelet. Runs at every boot; what is there already is left as it is.
set -euo pipefail
. /etc/drover/setup.env

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*)
  echo "no downloads are known for $(uname -m)" >&2
  exit 1
  ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() { # URL FILE
  curl --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --silent --show-error --location \
    --retry 10 --retry-delay 3 --retry-connrefused --output "$2" "$1"
}

verified() { # URL CHECKSUM-URL FILE: keeps the file only when it has the published SHA-256
  fetch "$1" "$3"
  fetch "$2" "$3.sum"
  local name sum
  name=${1##*/}
  sum=$(awk -v name="$name" 'NF == 1 || $2 == name || $2 == "*" name { print $1; exit }' "$3.sum")
  [[ $sum =~ ^[0-9a-f]{64}$ ]] || {
    echo "$2 holds no SHA-256 of $name" >&2
    exit 1
  }
  echo "$sum  $3" | sha256sum --check --quiet
}

provider_id() { # the server's identity, from the metadata service or the config drive
  local uuid='' drive=/run/drover/config-drive
  uuid=$(curl --fail --silent --show-error --retry 10 --retry-delay 3 --retry-connrefused \
    http://169.254.169.254/openstack/latest/meta_data.json | sed -nE 's/.*"uuid": *"([0-9a-f-]{36})".*/\1/p') || true
  if [[ -z $uuid && -e /dev/disk/by-label/config-2 ]]; then
    mkdir -p "$drive"
    mount -o ro /dev/disk/by-label/config-2 "$drive"
    uuid=$(sed -nE 's/.*"uuid": *"([0-9a-f-]{36})".*/\1/p' "$drive/openstack/latest/meta_data.json")
    umount "$drive"
  fi
  [[ -n $uuid ]] || {
    echo 'neither the metadata service nor a config drive names this server' >&2
    exit 1
  }
  mkdir -p /run/drover
  echo "KUBELET_PROVIDER_ID=--provider-id=$PROVIDER_ID_PREFIX$uuid" >/run/drover/provider-id.env
}

packages() { # what the kubelet and its network call for
  local missing=()
  for command in conntrack socat ethtool; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || return 0
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 update
  apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "${missing[@]}"
}

runtime() {
  if ! command -v containerd >/dev/null; then
    local base=https://github.com/containerd/containerd/releases/download/v$CONTAINERD_VERSION
    local archive=containerd-$CONTAINERD_VERSION-linux-$arch.tar.gz
    verified "$base/$archive" "$base/$archive.sha256sum" "$work/$archive"
    tar -C /usr/local -xzf "$work/$archive"
    install -m 0644 /opt/drover/containerd.service /etc/systemd/system/containerd.service
  fi
  if ! command -v runc >/dev/null; then
    local base=https://github.com/opencontainers/runc/releases/download/v$RUNC_VERSION
    verified "$base/runc.$arch" "$base/runc.sha256sum" "$work/runc"
    install -m 0755 "$work/runc" /usr/local/sbin/runc
  fi
  # Flatcar's own containerd is set up as the kubelet wants it, and its configuration is read-only.
  if command -v apt-get >/dev/null && ! grep -qs 'SystemdCgroup = true' /etc/containerd/config.toml; then
    mkdir -p /etc/containerd
    containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' >/etc/containerd/config.toml
    systemctl try-restart containerd.service
  fi
}

network_plugins() {
  [[ ! -x /opt/cni/bin/loopback ]] || return 0
  local base=https://github.com/containernetworking/plugins/releases/download/v$CNI_PLUGINS_VERSION
  local archive=cni-plugins-linux-$arch-v$CNI_PLUGINS_VERSION.tgz
  verified "$base/$archive" "$base/$archive.sha256" "$work/$archive"
  mkdir -p /opt/cni/bin
  tar -C /opt/cni/bin -xzf "$work/$archive"
}

kubelet() {
  mkdir -p /opt/bin /etc/kubernetes/manifests
  local found
  for found in /opt/bin/kubelet $(type -ap kubelet); do
    [[ -x $found && $("$found" --version) == "Kubernetes v$KUBELET_VERSION" ]] || continue
    [[ $found == /opt/bin/kubelet ]] || ln -sf "$found" /opt/bin/kubelet
    return 0
  done
  local base=https://dl.k8s.io/release/v$KUBELET_VERSION/bin/linux/$arch/kubelet
  verified "$base" "$base.sha256" "$work/kubelet"
  install -m 0755 "$work/kubelet" /opt/bin/kubelet
}

swapoff -a
modprobe -a overlay br_netfilter nf_conntrack
sysctl --quiet --load=/etc/sysctl.d/90-kubernetes.conf
packages
runtime
network_plugins
kubelet
provider_id
systemctl daemon-reload
systemctl enable --now containerd.service
