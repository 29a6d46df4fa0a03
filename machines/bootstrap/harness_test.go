package bootstrap

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// host is a directory that the setup script uses in place of a server's root directory. Its programs are stubs, and its curl reads
// downloads from the subdirectory web.
type host struct {
	*testing.T
	root string
}

const (
	hostKubelet = "#!/bin/bash\necho 'Kubernetes v1.36.2'\n"
	hostID      = "0a1b2c3d-0000-4000-8000-000000000001"
)

// hostContainerd is a containerd 2. It shows a configuration file without its comments as what is in force; what it imports is not merged.
const hostContainerd = `#!/bin/bash
case "$*" in
--version) echo 'containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7' ;;
'config default') cat <<'DEFAULT' ;;
` + hostRuntimeConfig + `DEFAULT
--config*'config dump') sed -E 's/ *#.*//' "$2" ;;
esac
`

// hostRuntimeConfig has the parts of containerd 2's default configuration that the setup looks at.
const hostRuntimeConfig = `version = 3
disabled_plugins = []
imports = []

[plugins]
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'a/pause:1'

  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = ''

  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    sandboxer = 'podsandbox'

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      ShimCgroup = ''
      SystemdCgroup = false
`

// hostSystemctl returns a systemctl that records its commands. It shows a property of containerd's unit from a file in the folder shown.
func hostSystemctl(root string) string {
	return `#!/bin/bash
if [[ $1 == show ]]; then
  file=` + root + `/shown/${2#--property=}
  [[ ! -e $file ]] || cat "$file"
else
  echo systemctl "$@" >>` + root + `/commands
fi
`
}

// hostSysctl returns a sysctl program that sets and shows the keys that exist as files in a directory, and fails for any other key.
func hostSysctl(folder string) string {
	return `#!/bin/bash
if [[ $1 == --values ]]; then
  cat ` + folder + `/${2//.//}
  exit
fi
result=0
while IFS=' =' read -r key value; do
  file=` + folder + `/${key//.//}
  [[ -e $file ]] && echo "$value" >"$file" && continue
  echo "sysctl: cannot stat $file: No such file or directory" >&2
  result=1
done <"${2#--load=}"
exit $result
`
}

func newHost(t *testing.T, in *Input) *host {
	t.Helper()
	// The path that t.TempDir returns contains the test's name, and a shell would interpret the brackets in that name.
	root, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	h := &host{T: t, root: root}
	for _, tool := range []string{"bash", "env", "mktemp", "rm", "awk", "sha256sum", "install", "mv", "mkdir", "tar", "gzip", "find", "grep", "sed", "cmp", "cat", "ln", "basename", "touch", "timeout"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatalf("the setup script needs %s: %v", tool, err)
		}
		h.must(os.MkdirAll(h.path("bin"), 0o755))
		h.must(os.Symlink(path, h.path("bin/"+tool)))
	}
	for _, quiet := range []string{"modprobe", "swapoff", "mount", "umount", "conntrack", "socat", "ethtool", "update-ca-certificates", "apt-get", "dpkg", "sleep"} {
		h.program("bin/"+quiet, "#!/bin/bash\necho "+quiet+" \"$@\" >>"+h.path("commands")+"\n")
	}
	h.program("bin/systemctl", hostSystemctl(h.root))
	h.program("bin/sysctl", hostSysctl(h.path("/proc/sys")))
	h.must(os.MkdirAll(h.path("/proc/sys/net/ipv6/conf/all"), 0o755))
	for _, key := range []string{
		"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "kernel/panic",
		"kernel/panic_on_oops", "vm/overcommit_memory", "fs/inotify/max_user_instances", "fs/inotify/max_user_watches",
	} {
		h.write("/proc/sys/"+key, "")
	}
	h.write("/proc/uptime", "100.50 90.25\n")
	h.program("bin/dpkg-query", "#!/bin/bash\n[[ ! -e "+h.root+"/packages/${*: -1} ]] || echo -n installed\n")
	h.program("bin/uname", "#!/bin/bash\necho x86_64\n")
	h.program("bin/curl", `#!/bin/bash
url=${*: -1}
for a in "$@"; do [[ $a != https://* ]] || url=$a; done
echo "$url" >>`+h.path("fetched")+`
echo "$*" >>`+h.path("requests")+`
file=`+h.path("web")+`/${url##*/}
[[ -e $file ]] || exit 22
while (($#)); do [[ $1 != --output ]] || { cat "$file" >"$2"; exit; }; shift; done
cat "$file"
`)
	h.write("web/meta_data.json", `{"name": "x", "uuid": "`+hostID+`"}`)
	doc, err := in.document()
	h.must(err)
	for _, f := range doc.files {
		h.write(f.path, h.local(f.content))
		h.must(os.Chmod(h.path(f.path), os.FileMode(f.mode)))
	}
	h.must(os.MkdirAll(h.path("/etc/systemd/system"), 0o755))
	return h
}

// local replaces the paths in the script by paths below the root of the host.
func (h *host) local(text string) string {
	var pairs []string
	for _, dir := range []string{"/etc/", "/opt/", "/run/", "/var/lib/", "/dev/disk/", "/usr/local/", "/proc/sys/", "/proc/uptime", "/sys/class/"} {
		pairs = append(pairs, dir, h.root+dir)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func (h *host) path(p string) string { return filepath.Join(h.root, p) }

func (h *host) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *host) write(path, content string) {
	h.Helper()
	h.must(os.MkdirAll(filepath.Dir(h.path(path)), 0o755))
	h.must(os.WriteFile(h.path(path), []byte(content), 0o600))
}

func (h *host) program(path, content string) {
	h.Helper()
	h.write(path, content)
	h.must(os.Chmod(h.path(path), 0o755))
}

// publish makes a file and its checksum available for download.
func (h *host) publish(name string, content []byte, checksums string) {
	h.write("web/"+name, string(content))
	h.write("web/"+checksums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
}

// publishAll makes all components that a bare image lacks available for download.
func (h *host) publishAll() {
	h.publish("containerd-"+DefaultContainerd+"-linux-amd64.tar.gz", h.archive(map[string]string{"bin/containerd": hostContainerd, "bin/ctr": "ctr"}), "containerd-"+DefaultContainerd+"-linux-amd64.tar.gz.sha256sum")
	h.publish("runc.amd64", []byte("runc"), "runc.sha256sum")
	h.publish("cni-plugins-linux-amd64-v"+DefaultCNIPlugins+".tgz", h.archive(map[string]string{"./loopback": "x", "./bridge": "y"}), "cni-plugins-linux-amd64-v"+DefaultCNIPlugins+".tgz.sha256")
	h.publish("kubelet", []byte(hostKubelet), "kubelet.sha256")
}

func (h *host) archive(files map[string]string) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for name, content := range files {
		h.must(w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		h.must(err)
	}
	h.must(w.Close())
	h.must(zip.Close())
	return out.Bytes()
}

// run runs a script of the user data, and returns its output.
func (h *host) run(path string, args ...string) (string, error) {
	c := exec.CommandContext(h.Context(), h.path("bin/bash"), append([]string{h.path(path)}, args...)...)
	c.Env = []string{"PATH=" + strings.Join([]string{h.path("bin"), h.path("/usr/local/bin"), h.path("/usr/local/sbin")}, ":"), "TMPDIR=" + h.root}
	out, err := c.CombinedOutput()
	h.Logf("%s", out)
	return string(out), err
}

// setup runs the setup script once. It returns the URLs that the script has requested, except the URL of the server's metadata.
func (h *host) setup() ([]string, error) {
	h.must(os.RemoveAll(h.path("fetched")))
	_, err := h.run(pathSetup)
	fetched, readErr := os.ReadFile(h.path("fetched"))
	if !os.IsNotExist(readErr) { // nothing is requested when the server has all components and knows its ID
		h.must(readErr)
	}
	urls := strings.Fields(string(fetched))
	return slices.DeleteFunc(urls, func(u string) bool { return strings.HasSuffix(u, "/meta_data.json") }), err
}

func (h *host) content(path string) string {
	content, err := os.ReadFile(h.path(path))
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// whole installs the kubelet, and all programs that the kubelet needs, on the simulated server.
func (h *host) whole() {
	h.program("bin/containerd", hostContainerd)
	h.program("bin/runc", "")
	h.program("/opt/cni/bin/loopback", "")
	h.program("bin/kubelet", hostKubelet)
}

const providerEnv = "KUBELET_PROVIDER_ID=--provider-id=openstack:///" + hostID + "\n"
