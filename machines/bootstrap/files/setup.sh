#!/usr/bin/env bash
# Makes this host ready to run a kubelet. Runs at every boot, and again until it succeeds; what is there already is left
# as it is, and nothing is downloaded for it. The kubelet cannot start before /run/drover/provider-id.env exists.
set -eEuo pipefail
trap 'echo "failed in line $LINENO: $BASH_COMMAND" >&2' ERR
# shellcheck source=/dev/null
. /etc/drover/setup.env
: "$KUBELET_VERSION" "$CONTAINERD_VERSION" "$RUNC_VERSION" "$CNI_PLUGINS_VERSION"
: "$PROVIDER_ID_PREFIX" "$PAUSE_IMAGE" "$RUNTIME_CONFIG" "$PACKAGES" "$DIST_UPGRADE"

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*)
  echo "the setup failed: no downloads are known for $(uname -m)" >&2
  exit 1
  ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() { # URL FILE
  curl --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --silent --show-error --location \
    --connect-timeout 15 --speed-limit 1024 --speed-time 60 --max-time 900 \
    --retry 10 --retry-delay 3 --retry-connrefused --retry-max-time 1800 --output "$2" "$1" || {
    echo "downloading $1 failed" >&2
    exit 1
  }
}

verified() { # URL CHECKSUM-URL FILE: keeps the file only when it has the published SHA-256
  fetch "$1" "$3"
  fetch "$2" "$3.sum"
  local name sum found
  name=${1##*/}
  sum=$(awk -v name="$name" 'NF == 1 || $2 == name || $2 == "*" name { print $1; exit }' "$3.sum")
  [[ $sum =~ ^[0-9a-f]{64}$ ]] || {
    echo "verifying $1 failed: $2 holds no SHA-256 of $name" >&2
    exit 1
  }
  found=$(sha256sum "$3")
  [[ ${found%% *} == "$sum" ]] || {
    echo "verifying $1 failed: its SHA-256 is ${found%% *}, but $2 publishes $sum" >&2
    exit 1
  }
}

place() { # FILE TARGET: at once or not at all, so that a boot that breaks off leaves no half program
  install -D -m 0755 "$1" "$2.new"
  mv "$2.new" "$2"
}

unpacked() { # ARCHIVE DIRECTORY LAST: places what the archive holds; LAST, by which it is known to be there, comes last
  local from=$work/unpacked program
  rm -rf "$from"
  mkdir "$from"
  tar -C "$from" -xzf "$1"
  find "$from" -type f ! -name "$3" -printf '%f\n' | while read -r program; do
    place "$(find "$from" -type f -name "$program")" "$2/$program"
  done
  place "$(find "$from" -type f -name "$3")" "$2/$3"
}

trust() { # certificates that the whole system is to trust
  local cert
  [[ -d /etc/drover/ca ]] || return 0
  for cert in /etc/drover/ca/*.crt; do
    if [[ -d /usr/local/share/ca-certificates ]]; then
      install -m 0644 "$cert" "/usr/local/share/ca-certificates/drover-${cert##*/}"
    else
      install -m 0644 "$cert" "/etc/ssl/certs/drover-$(basename "$cert" .crt).pem"
    fi
  done
  update-ca-certificates >/dev/null
}

kernel_settings() { # an image with IPv6 off has no keys for it; a key that is missing otherwise is an error
  local file=/etc/sysctl.d/90-kubernetes.conf raised=/run/sysctl.d/90-drover.conf
  if [[ ! -d /proc/sys/net/ipv6 ]]; then
    grep -v '^net\.ipv6\.' "$file" >"$work/sysctl.conf"
    file=$work/sysctl.conf
  fi
  mkdir -p "${raised%/*}"
  {
    at_least fs.inotify.max_user_instances 8192
    at_least fs.inotify.max_user_watches 524288
  } >"$raised"
  sysctl --quiet --load="$file"
  sysctl --quiet --load="$raised"
  # As at boot, all files in the order of their names: an operator's 99-….conf has the last word.
  systemctl restart systemd-sysctl.service || true
}

at_least() { # KEY VALUE: prints the setting with the larger one of VALUE and what is in force
  local now
  now=$(sysctl --values "$1")
  echo "$1 = $((now > $2 ? now : $2))"
}

reread() { # what of the system's own services has been given new settings
  if [[ -e /etc/systemd/resolved.conf.d/10-drover.conf ]]; then
    systemctl try-restart systemd-resolved.service || true # not every image has it
    systemctl is-active --quiet systemd-resolved.service || {
      echo "the setup failed: network.dns.servers is for systemd-resolved, which does not run on this image" >&2
      exit 1
    }
  fi
  if [[ -e /etc/ssh/sshd_config.d/60-drover.conf ]]; then
    systemctl try-reload-or-restart ssh.service sshd.service || true
  fi
}

resolver() { # the kubelet gives pods the DNS servers of this file: not a stub on a loopback address, which no pod reaches
  local file
  mkdir -p /run/drover
  for file in /run/systemd/resolve/resolv.conf /run/NetworkManager/no-stub-resolv.conf /etc/resolv.conf; do
    [[ -e $file ]] || continue
    ln -sf "$file" /run/drover/resolv.conf
    return
  done
  rm -f /run/drover/resolv.conf
  : >/run/drover/resolv.conf # an image without DNS
}

uuid_in() { # the server's own uuid, of the outermost object: a tag in meta, which the user writes, may have that name too
  sed 's/\\.//g' | { grep -oE '"[^"]*"|[][{}:]' || true; } | awk '
    $0 == "{" || $0 == "[" { depth++ }
    $0 == "}" || $0 == "]" { depth-- }
    depth == 1 && key == "\"uuid\"" && before == ":" { print substr($0, 2, length($0) - 2) }
    { key = before; before = $0 }' | sed -nE '/^[0-9a-f-]{36}$/p'
}

# An image that was made of a node has the kubelet's state and the records of another server. The bootstrap kubeconfig is written once
# for each server, so its checksum says whose they are.
own_state() {
  local kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf owner
  mkdir -p /var/lib/drover
  [[ -e $kubeconfig ]] || return 0
  owner=$(sha256sum <"$kubeconfig")
  if [[ ! -e /var/lib/drover/owner || $(</var/lib/drover/owner) != "$owner" ]]; then
    rm -rf /var/lib/drover/* /var/lib/kubelet/pki /var/lib/kubelet/kubeconfig /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
    echo "$owner" >/var/lib/drover/owner
  fi
}

earlier_boot() {
  cat /var/lib/drover/server-id
}

metadata_service() {
  curl --noproxy '*' --fail --silent --show-error --max-time 10 --retry 5 --retry-delay 3 --retry-connrefused \
    http://169.254.169.254/openstack/latest/meta_data.json | uuid_in
}

config_drive() { # its label is in capitals when it is a FAT file system
  local label drive=/run/drover/config-drive
  for label in config-2 CONFIG-2; do
    [[ -e /dev/disk/by-label/$label ]] || continue
    mkdir -p "$drive"
    mount -o ro "/dev/disk/by-label/$label" "$drive" || continue
    uuid_in <"$drive/openstack/latest/meta_data.json"
    umount "$drive"
    return
  done
}

cloud_init() { # it has asked the metadata service or read the config drive for the user data
  cloud-init query v1.instance_id
}

firmware() { # Nova gives QEMU the server's ID; other machines have a UUID of their own there
  [[ $(</sys/class/dmi/id/product_name) == 'OpenStack '* ]] && cat /sys/class/dmi/id/product_uuid
}

server_id() { # the server's identity, from the first source that has it
  local source uuid='' problems=$work/identity
  for source in earlier_boot metadata_service config_drive cloud_init firmware; do
    uuid=$("$source" 2>>"$problems") || true
    uuid=${uuid,,}
    [[ ! $uuid =~ ^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$ ]] || break
    uuid=''
  done
  [[ -n $uuid ]] || {
    cat "$problems" >&2
    echo "the setup failed: neither the metadata service, a config drive, cloud-init nor the firmware names this server" >&2
    exit 1
  }
  mkdir -p /run/drover
  echo "$uuid" >/var/lib/drover/server-id
  local flag=
  [[ -z $PROVIDER_ID_PREFIX ]] || flag=--provider-id=$PROVIDER_ID_PREFIX$uuid
  echo "KUBELET_PROVIDER_ID=$flag" >/run/drover/provider-id.env
}

uptime() { # in seconds: the clock may be set while the host boots
  local seconds
  read -r seconds _ </proc/uptime
  echo "${seconds%.*}"
}

unlocked() { # COMMAND: repeats a command of apt or dpkg for up to five minutes while another process has one of their locks
  local start status
  start=$(uptime)
  while true; do
    # needrestart restarts no services here: it could wait for one that waits for this setup.
    LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 "$@" 2>"$work/apt" && return
    status=$?
    cat "$work/apt" >&2
    (($(uptime) - start < 300)) || return "$status"
    grep -qE '^E: Could not get lock|lock (is|was) locked by another process' "$work/apt" || return "$status"
    sleep 10
  done
}

apt() {
  if [[ ! -e $work/apt ]]; then
    # A reboot or a power cut may have ended dpkg in the middle of its work. apt refuses any other work until that is completed.
    unlocked timeout 600 dpkg --force-confdef --force-confold --configure -a ||
      echo "dpkg --configure -a failed: apt may install nothing" >&2
  fi
  unlocked apt-get -o DPkg::Lock::Timeout=0 -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "$@"
}

update() { # a source that is broken keeps apt from none of the others
  apt update || {
    echo "apt update failed: the lists of packages may be old" >&2
    return 1
  }
}

packages() { # what the setup, the kubelet and its network call for
  local missing=() command
  for command in conntrack curl ethtool socat; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  command -v update-ca-certificates >/dev/null || missing+=(ca-certificates)
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || return 0
  update || true
  apt install --yes --no-install-recommends "${missing[@]}" || {
    echo "the setup failed: installing ${missing[*]} failed" >&2
    exit 1
  }
}

upgrade() { # distUpgradeOnBoot: at each boot until it has succeeded; a node with old packages is better than none
  local try
  [[ -n $DIST_UPGRADE && ! -e /var/lib/drover/upgraded ]] || return 0
  command -v apt-get >/dev/null || return 0
  for try in 1 2 3; do
    ((try == 1)) || sleep 20
    update || true
    apt dist-upgrade --yes -o Dpkg::Options::=--force-confold || continue
    touch /var/lib/drover/upgraded
    [[ -e /run/reboot-required ]] || return 0
    echo "the upgrade needs a reboot"
    # At the first boot cloud-init has started the setup and has other tasks. At later boots it waits for the setup itself.
    [[ -e /var/lib/drover/server-id ]] || timeout 300 cloud-init status --wait >/dev/null || true
    systemctl reboot
    # That returns at once. The units after this one must not start before the shutdown, which ends this.
    sleep infinity
  done
  echo "upgrading the packages failed: the node goes on without, and the next boot tries again" >&2
}

extra_packages() { # what the operator wants beside it: a node without them is better than none, and does not wait for them
  local missing=() failed=() name status
  command -v apt-get >/dev/null || return 0
  for name in $PACKAGES; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null) || true
    [[ $status == installed ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  update || true
  for name in "${missing[@]}"; do
    apt install --yes --no-install-recommends "$name" || failed+=("$name")
  done
  ((${#failed[@]})) || return 0
  echo "installing ${failed[*]} failed: drover-packages.service tries again" >&2
  exit 1
}

runtime() {
  if ! command -v containerd >/dev/null; then
    local base=https://github.com/containerd/containerd/releases/download/v$CONTAINERD_VERSION
    local archive=containerd-$CONTAINERD_VERSION-linux-$arch.tar.gz
    verified "$base/$archive" "$base/$archive.sha256sum" "$work/$archive"
    install -m 0644 /opt/drover/containerd.service /etc/systemd/system/containerd.service
    unpacked "$work/$archive" /usr/local/bin containerd
  fi
  if ! command -v runc >/dev/null; then
    local base=https://github.com/opencontainers/runc/releases/download/v$RUNC_VERSION
    verified "$base/runc.$arch" "$base/runc.sha256sum" "$work/runc"
    place "$work/runc" /usr/local/sbin/runc
  fi
}

# A kubelet of 1.38 or newer starts only with a runtime that names its cgroup driver (CRI call RuntimeConfig); containerd does
# from 2.0 on. Before that, 1.6 is enough.
runtime_fits() {
  local needed=1.6 minor=${KUBELET_VERSION#*.} version
  ((${minor%%.*} < 38)) || needed=2.0
  version=$(containerd --version)
  [[ $version =~ [[:space:]]v?([0-9]+)\.([0-9]+) ]] || return 0
  ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < ${needed%.*} * 1000 + ${needed#*.})) || return 0
  echo "the setup failed: kubelet $KUBELET_VERSION needs containerd $needed or newer and this image has ${BASH_REMATCH[1]}.${BASH_REMATCH[2]}:" \
    "use an image with a newer one, or with none, on which containerd $CONTAINERD_VERSION is installed" >&2
  exit 1
}

# Changes containerd's configuration only where a kubelet or the operator needs it. Everything else in the image stays as it is: other runtimes,
# and its imports. containerd itself says what is in force (config dump), whatever the form of the files.
runtime_config() {
  local own=/etc/containerd/config.toml new=/etc/containerd/config.toml.new file
  file=$(runtime_file "$own")
  if [[ ! -e $file ]]; then
    containerd config default >"$work/dump.toml"
    RUNTIME_CONFIG=own
  elif ! dumped "$file"; then
    echo "the setup failed: containerd cannot read the image's configuration $file" >&2
    exit 1
  fi
  mended >"$work/mended.toml"
  ! cmp --silent "$work/dump.toml" "$work/mended.toml" || return 0
  # Beside the old one, because what a configuration imports may be named relative to it.
  install -D -m 0644 "$work/mended.toml" "$new"
  # Files stay imported, unless they take back what is needed. Their settings are in the dump.
  complete "$new" || { sed -i 's/^imports = .*/imports = []/' "$new" && complete "$new"; } || {
    echo "the setup failed: what containerd imports beside $file keeps systemd from being the cgroup driver" >&2
    exit 1
  }
  mv "$new" "$own"
  if [[ $file != "$own" ]]; then
    mkdir -p /etc/systemd/system/containerd.service.d
    printf '[Service]\nExecStart=\nExecStart=%s\n' "$(runtime_command "$own")" >/etc/systemd/system/containerd.service.d/zz-drover-config.conf
  fi
  systemctl daemon-reload
  systemctl try-restart containerd.service
}

runtime_argv() { # the command line of containerd's unit
  local command
  command=$(systemctl show --property=ExecStart --value containerd.service)
  command=${command#*argv\[\]=}
  echo "${command%% ; *}"
}

config_flag='[[:space:]](--config|-c)[=[:space:]]([^[:space:]]+)'

runtime_command() { # FILE: that command line with FILE as the configuration, as a unit writes it
  local argv
  argv=$(runtime_argv)
  [[ $argv =~ $config_flag ]]
  argv=${argv/"${BASH_REMATCH[0]}"/" --config $1"}
  echo "${argv//%/%%}"
}

runtime_file() { # DEFAULT: the configuration that containerd's unit names; Flatcar's is below /usr, in a variable
  local argv variables name
  argv=$(runtime_argv)
  [[ $argv =~ $config_flag ]] || {
    echo "$1"
    return
  }
  name=${BASH_REMATCH[2]}
  if [[ $name == '$'* ]]; then
    variables=$(systemctl show --property=Environment --value containerd.service)
    [[ " $variables" =~ [[:space:]]${name//[\$\{\}]/}=([^[:space:]]+) ]] || return 0
    name=${BASH_REMATCH[1]}
  fi
  echo "$name"
}

dumped() { # FILE: writes what is in force to dump.toml, without FILE among its imports, where containerd 1 lists it
  containerd --config "$1" config dump | sed -E "/^imports = /s#[\"']$1[\"'](, )?##" >"$work/dump.toml"
}

complete() { # FILE: mends it until containerd finds nothing to mend: a plugin shows its settings only once it is enabled
  for _ in 1 2 3; do
    dumped "$1" || return
    mended >"$work/mended.toml"
    ! cmp --silent "$work/dump.toml" "$work/mended.toml" || return 0
    cat "$work/mended.toml" >"$1"
  done
  return 1
}

# A value that is right stays as it is written, so that a configuration which needs nothing is not changed.
mended() { # prints dump.toml with the CRI plugin, systemd as the cgroup driver of each runtime with runc, and the operator's settings
  awk -v own="$RUNTIME_CONFIG" -v pause="$PAUSE_IMAGE" -v registries=/etc/containerd/certs.d '
    function value(text) { sub(/^[^=]*= /, "", text); gsub(/["\047]/, "", text); return text }
    function set(text) { match($0, /^[^=]*= /); $0 = substr($0, 1, RLENGTH) text }
    function table(text) { sub(/^ *\[/, "", text); sub(/\] *$/, "", text); return text }
    { line[NR] = $0 }
    /^ *\[/ { section = table($0); known[section] = 1 }
    /^ *runtime_type = ["\047]io\.containerd\.runc\.v2["\047]$/ && section ~ /\.containerd\.runtimes\./ { runc[section ".options"] = 1 }
    /^ *SystemdCgroup = / { driver[section] = 1 }
    END {
      section = ""
      for (i = 1; i <= NR; i++) {
        $0 = line[i]
        if (/^ *\[/) {
          section = table($0)
          # containerd refuses these beside a folder with the registries.
          dropped = own != "" && section ~ /\.registry\.(mirrors\.|configs\..*\.tls$)/
          if (section in runc && !(section in driver)) $0 = $0 "\nSystemdCgroup = true"
        }
        if (dropped) continue
        if (/^disabled_plugins = /) {
          gsub(/["\047](cri|io\.containerd\.grpc\.v1\.cri|io\.containerd\.cri\.v1\.(images|runtime))["\047](, )?/, "")
          sub(/, \]$/, "]")
        }
        if (/^ *SystemdCgroup = / && section in runc && value($0) != "true") set("true")
        if (own != "" && /^ *config_path = / && !index(":" value($0) ":", ":" registries ":")) set("\"" registries "\"")
        if (pause != "" && /^ *sandbox(_image)? = / && value($0) != pause) set("\"" pause "\"")
        print
      }
      for (name in runc) if (!(name in known)) print "\n[" name "]\nSystemdCgroup = true"
    }' "$work/dump.toml"
}

network_plugins() {
  [[ ! -x /opt/cni/bin/loopback ]] || return 0
  local base=https://github.com/containernetworking/plugins/releases/download/v$CNI_PLUGINS_VERSION
  local archive=cni-plugins-linux-$arch-v$CNI_PLUGINS_VERSION.tgz
  verified "$base/$archive" "$base/$archive.sha256" "$work/$archive"
  unpacked "$work/$archive" /opt/cni/bin loopback
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
  place "$work/kubelet" /opt/bin/kubelet
}

if [[ ${1-} == packages ]]; then # drover-packages.service, beside the kubelet
  extra_packages
  exit
fi
own_state
command -v update-ca-certificates >/dev/null || packages
trust
reread
resolver
upgrade
swapoff -a
modprobe -a overlay br_netfilter nf_conntrack
kernel_settings
packages
runtime
runtime_fits
runtime_config
network_plugins
kubelet
systemctl daemon-reload
systemctl enable --now containerd.service
server_id
# Nothing orders the kubelet after this unit: a package's script that restarts it here would wait for its own end. A kubelet that somebody
# has disabled stays so.
! systemctl is-enabled --quiet kubelet.service || systemctl start --no-block kubelet.service
