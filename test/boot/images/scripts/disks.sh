#!/usr/bin/env bash
# Makes the disks that the guests boot from, out of the root file system of root.sh: full.img, bare.img, packaged.img, used.img and
# ignition.img, with kernel and initrd.
# disks.sh ROOT OUT KUBELET IGNITION IMAGES, where ROOT is the folder of root.sh, KUBELET and IGNITION are programs, and IMAGES is an
# archive of container images.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
root=$1 out=$2 kubelet=$3 ignition=$4 images=$5
here=$(dirname "$(readlink -f "$0")")
work=$out/work
mkdir "$work"

quietly() { # COMMAND..: shows what it prints only when it fails
  "$@" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    return 1
  }
}

common() { # R: an image that runs on any cloud, with the pod network and the container images that a cluster would bring
  local R=$1
  echo '/dev/vda / ext4 defaults 0 1' >"$R/etc/fstab"
  : >"$R/etc/machine-id"
  rm -f "$R"/etc/hostname "$R"/etc/ssh/ssh_host_* "$R"/var/lib/dbus/machine-id
  ln -sf ../run/systemd/resolve/stub-resolv.conf "$R/etc/resolv.conf"
  quietly chroot "$R" systemctl enable systemd-networkd systemd-resolved
  quietly chroot "$R" systemctl mask motd-news.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer
  install -D -m 0644 "$here/pods.conflist" "$R/etc/cni/net.d/10-pods.conflist"
  install -D -m 0644 "$images" "$R/var/lib/images.tar"
  install -D -m 0644 "$here/import-images.service" "$R/etc/systemd/system/import-images.service"
  quietly chroot "$R" systemctl enable import-images
}

full() { # R: an image with all that a node needs
  install -m 0755 "$kubelet" "$1/usr/bin/kubelet"
  mkdir -p "$1/opt/cni"
  ln -s /usr/lib/cni "$1/opt/cni/bin"
}

with_cloud_init() { # R: as Ubuntu's own images, without the languages
  cat >"$1/etc/cloud/cloud.cfg.d/90-test.cfg" <<'CFG'
locale: false
ssh_genkeytypes: [ed25519]
CFG
}

bare() { # R: without what the setup downloads
  quietly chroot "$1" dpkg --purge --force-all containerd runc containernetworking-plugins
  rm -rf "$1/etc/containerd"
}

# The Kubernetes project's packages kubelet and kubeadm: a unit that is started at boot, and a drop-in with a kubelet and flags of
# its own.
packaged() { # R
  install -D -m 0644 "$here/kubelet.service" "$1/usr/lib/systemd/system/kubelet.service"
  install -D -m 0644 "$here/10-kubeadm.conf" "$1/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
  quietly chroot "$1" systemctl enable kubelet
}

used() { # R: an image that was made of a node of another cluster, while the certificate of its kubelet is valid
  local R=$1 pki=/var/lib/kubelet/pki
  mkdir -p "$R$pki" "$R/var/lib/drover"
  quietly chroot "$R" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj /O=system:nodes/CN=system:node:used -keyout "$pki/old.key" -out "$pki/old.crt"
  cat "$R$pki/old.crt" "$R$pki/old.key" >"$R$pki/kubelet-client-2026-01-01-00-00-00.pem"
  ln -s kubelet-client-2026-01-01-00-00-00.pem "$R$pki/kubelet-client-current.pem"
  cat >"$R/var/lib/kubelet/kubeconfig" <<'K'
apiVersion: v1
kind: Config
clusters: [{name: old, cluster: {server: 'https://192.0.2.1:6443'}}]
users:
- name: old
  user: {client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem, client-key: /var/lib/kubelet/pki/kubelet-client-current.pem}
contexts: [{name: old, context: {cluster: old, user: old}}]
current-context: old
K
  echo 11111111-2222-4333-8444-555555555555 >"$R/var/lib/drover/server-id"
  echo 'another server' >"$R/var/lib/drover/owner"
}

# What Flatcar has, as far as drover's user data can see it: Ignition in the initramfs, no packages, a user core, containerd with a
# configuration below /usr.
flatcar() { # R
  local R=$1
  quietly chroot "$R" dpkg --purge --force-all cloud-init netplan.io
  rm -rf "$R"/etc/cloud "$R"/var/lib/cloud "$R"/etc/containerd "$R"/etc/netplan
  echo uninitialized >"$R/etc/machine-id"
  ln -s /dev/null "$R/etc/systemd/system/systemd-firstboot.service"
  mkdir -p "$R/usr/share/containerd"
  chroot "$R" containerd config default | sed -E -e '/SystemdCgroup = /d' -e '/runtimes\.runc\.options\]/a SystemdCgroup = true' >"$R/usr/share/containerd/config.toml"
  sed -i 's#^ExecStart=/usr/bin/containerd#& --config /usr/share/containerd/config.toml#' "$R/usr/lib/systemd/system/containerd.service"
  cat >"$R/etc/systemd/network/zz-default.network" <<'U'
[Match]
Name=eth*
[Network]
DHCP=yes
U
  chroot "$R" useradd -m -U -s /bin/bash core
  echo 'core ALL=(ALL) NOPASSWD:ALL' >"$R/etc/sudoers.d/core"
  sed -i 's/^ID=.*/ID=flatcar/' "$R/usr/lib/os-release"
  install -m 0755 "$ignition" "$R/usr/bin/ignition"
  install -m 0755 "$here/initramfs-hook" "$R/etc/initramfs-tools/hooks/ignition"
  install -m 0755 "$here/initramfs-ignition" "$R/etc/initramfs-tools/scripts/local-bottom/ignition"
  echo MODULES=list >"$R/etc/initramfs-tools/conf.d/modules"
  quietly chroot "$R" mkinitramfs -o /initrd "$(basename "$(echo "$R"/lib/modules/*)")"
  mv "$R/initrd" "$out/initrd"
  rm -f "$R/usr/bin/apt-get" "$R/usr/bin/apt"
}

disk() { # NAME STEP..: unpacks the root, applies the steps, and makes a sparse disk of 6 GiB without a partition table
  local name=$1 R=$work/$1 step
  shift
  mkdir "$R"
  tar -C "$R" -xf "$root/root.tar"
  for step in common "$@"; do "$step" "$R"; done
  quietly mke2fs -q -t ext4 -L root -d "$R" "$out/$name.img" 6G
  rm -rf "$R"
}

disk full full with_cloud_init
disk bare bare with_cloud_init
disk packaged full with_cloud_init packaged
disk used full with_cloud_init used
disk ignition full flatcar
mkdir "$work/root"
tar -C "$work/root" -xf "$root/root.tar" --wildcards './boot/vmlinuz-*' ./usr/sbin/runc ./usr/lib/cni
cp "$work"/root/boot/vmlinuz-* "$out/kernel"

# The downloads of the bare image, as their projects pack them.
mkdir "$out/downloads"
tar -C "$root/containerd-1.7" --transform 's,^\./,bin/,' -czf "$out/downloads/containerd.tar.gz" ./containerd ./containerd-shim-runc-v2 ./ctr
cp "$work/root/usr/sbin/runc" "$out/downloads/runc"
tar -C "$work/root/usr/lib/cni" -czf "$out/downloads/cni-plugins.tgz" .
rm -rf "$work"
