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

	"github.com/drover-project/drover/test/kubelet"
)

// host is a folder that the setup script takes for a server's disk. Its programs are stand-ins, and its network is a
// folder.
type host struct {
	*testing.T
	root string
}

const (
	hostKubelet    = "#!/bin/bash\necho 'Kubernetes v1.36.2'\n"
	hostContainerd = "#!/bin/bash\n[[ $1 != --version ]] || { echo 'containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7'; exit; }\nprintf \"[x.runtimes.runc.options]\\n  ShimCgroup = ''\\n[y]\\n  config_path = ''\\n  sandbox = 'a/pause:1'\\n  sandboxer = 'podsandbox'\\n\"\n"
	hostID         = "0a1b2c3d-0000-4000-8000-000000000001"
)

// hostSysctl returns a sysctl program that sets the keys of the files in a folder, and fails for a key that has none.
func hostSysctl(folder string) string {
	return `#!/bin/bash
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
	// Not t.TempDir: it has the test's name, whose brackets a shell would read.
	root, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	h := &host{T: t, root: root}
	for _, tool := range []string{"bash", "env", "mktemp", "rm", "awk", "sha256sum", "install", "mv", "mkdir", "tar", "gzip", "find", "grep", "sed", "cmp", "cat", "ln", "basename"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatalf("the setup script needs %s: %v", tool, err)
		}
		h.must(os.MkdirAll(h.path("bin"), 0o755))
		h.must(os.Symlink(path, h.path("bin/"+tool)))
	}
	for _, quiet := range []string{"modprobe", "swapoff", "mount", "umount", "conntrack", "socat", "ethtool", "update-ca-certificates", "systemctl", "apt-get"} {
		h.program("bin/"+quiet, "#!/bin/bash\necho "+quiet+" \"$@\" >>"+h.path("commands")+"\n")
	}
	h.program("bin/sysctl", hostSysctl(h.path("/proc/sys")))
	h.must(os.MkdirAll(h.path("/proc/sys/net/ipv6/conf/all"), 0o755))
	for _, key := range []string{
		"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "kernel/panic",
		"kernel/panic_on_oops", "vm/overcommit_memory", "fs/inotify/max_user_instances", "fs/inotify/max_user_watches",
	} {
		h.write("/proc/sys/"+key, "")
	}
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

// local puts the paths of the script below the root.
func (h *host) local(text string) string {
	var pairs []string
	for _, dir := range []string{"/etc/", "/opt/", "/run/", "/var/lib/", "/dev/disk/", "/usr/local/", "/proc/sys/"} {
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

// publish puts a download and its checksum on the network.
func (h *host) publish(name string, content []byte, checksums string) {
	h.write("web/"+name, string(content))
	h.write("web/"+checksums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
}

// publishAll puts everything there that a bare image lacks.
func (h *host) publishAll() {
	h.publish("containerd-2.1.4-linux-amd64.tar.gz", h.archive(map[string]string{"bin/containerd": hostContainerd, "bin/ctr": "ctr"}), "containerd-2.1.4-linux-amd64.tar.gz.sha256sum")
	h.publish("runc.amd64", []byte("runc"), "runc.sha256sum")
	h.publish("cni-plugins-linux-amd64-v1.7.1.tgz", h.archive(map[string]string{"./loopback": "x", "./bridge": "y"}), "cni-plugins-linux-amd64-v1.7.1.tgz.sha256")
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

// run runs a script of the user data, and returns what it prints.
func (h *host) run(path string) (string, error) {
	c := exec.CommandContext(h.Context(), h.path("bin/bash"), h.path(path))
	c.Env = []string{"PATH=" + strings.Join([]string{h.path("bin"), h.path("/usr/local/bin"), h.path("/usr/local/sbin")}, ":"), "TMPDIR=" + h.root}
	out, err := c.CombinedOutput()
	h.Logf("%s", out)
	return string(out), err
}

// setup runs the setup once, and returns what it has fetched, less the metadata.
func (h *host) setup() ([]string, error) {
	h.must(os.RemoveAll(h.path("fetched")))
	_, err := h.run(pathSetup)
	fetched, readErr := os.ReadFile(h.path("fetched"))
	h.must(readErr)
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

// whole gives the host all that a kubelet needs.
func (h *host) whole() {
	h.program("bin/containerd", hostContainerd)
	h.program("bin/runc", "")
	h.program("/opt/cni/bin/loopback", "")
	h.program("bin/kubelet", hostKubelet)
}

const providerEnv = "KUBELET_PROVIDER_ID=--provider-id=openstack:///" + hostID + "\n"

func TestSetupOfAnImageThatHoldsEverythingDownloadsNothing(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	fetched, err := h.setup()
	if err != nil || len(fetched) != 0 {
		t.Errorf("fetched %q, error %v", fetched, err)
	}
	if got := h.content("/run/drover/provider-id.env"); got != providerEnv {
		t.Errorf("provider ID: %q", got)
	}
	if out, err := exec.Command(h.path("/opt/bin/kubelet"), "--version").Output(); err != nil || string(out) != "Kubernetes v1.36.2\n" {
		t.Errorf("kubelet: %q %v", out, err)
	}
}

func TestSetupFindsTheServersOwnUUID(t *testing.T) {
	const other = "11111111-2222-4333-8444-555555555555"
	for name, document := range map[string]string{
		"a tag named uuid comes after it (F-40)":  `{"uuid": "` + hostID + `", "launch_index": 0, "meta": {"uuid": "` + other + `"}, "keys": [{"uuid": "` + other + `"}]}`,
		"a tag named uuid comes before it (F-40)": `{"meta": {"uuid": "` + other + `"}, "name": "uuid", "launch_index": 0, "uuid":"` + hostID + `"}`,
		"a tag looks like JSON (F-40)":            `{"meta": {"a": "}, \"uuid\": \"` + other + `\", {\\"}, "hostname": "x", "uuid": "` + hostID + `", "z": "{"}`,
		"the document has several lines (F-40)":   "{\n  \"uuid\": \"" + hostID + "\",\n  \"meta\": {\n    \"uuid\": \"" + other + "\"\n  }\n}\n",
	} {
		t.Run("when "+name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.whole()
			h.write("web/meta_data.json", document)
			if _, err := h.setup(); err != nil {
				t.Fatal(err)
			}
			if got := h.content("/run/drover/provider-id.env"); got != providerEnv {
				t.Errorf("provider ID: %q", got)
			}
		})
	}
}

func TestSetupOfABareImage(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.publishAll()
	fetched, err := h.setup()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("what is missing is downloaded from its publisher, each with its checksum", func(t *testing.T) {
		want := []string{
			"https://github.com/containerd/containerd/releases/download/v2.1.4/containerd-2.1.4-linux-amd64.tar.gz",
			"https://github.com/containerd/containerd/releases/download/v2.1.4/containerd-2.1.4-linux-amd64.tar.gz.sha256sum",
			"https://github.com/opencontainers/runc/releases/download/v1.3.0/runc.amd64",
			"https://github.com/opencontainers/runc/releases/download/v1.3.0/runc.sha256sum",
			"https://github.com/containernetworking/plugins/releases/download/v1.7.1/cni-plugins-linux-amd64-v1.7.1.tgz",
			"https://github.com/containernetworking/plugins/releases/download/v1.7.1/cni-plugins-linux-amd64-v1.7.1.tgz.sha256",
			"https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet",
			"https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet.sha256",
		}
		if !slices.Equal(fetched, want) {
			t.Errorf("got %q", fetched)
		}
	})
	t.Run("everything is in its place", func(t *testing.T) {
		for path, want := range map[string]string{
			"/usr/local/bin/containerd": hostContainerd, "/usr/local/bin/ctr": "ctr", "/usr/local/sbin/runc": "runc",
			"/opt/cni/bin/loopback": "x", "/opt/cni/bin/bridge": "y", "/opt/bin/kubelet": hostKubelet, "/run/drover/provider-id.env": providerEnv,
		} {
			if got := h.content(path); got != want {
				t.Errorf("%s: %q", path, got)
			}
		}
		if got := h.content("/etc/containerd/config.toml"); !strings.Contains(got, "runtimes.runc.options]\nSystemdCgroup = true\n") || !strings.Contains(got, "'a/pause:1'") {
			t.Errorf("containerd's configuration:\n%s", got)
		}
	})
	t.Run("the next boot downloads nothing", func(t *testing.T) {
		if fetched, err := h.setup(); err != nil || len(fetched) != 0 {
			t.Errorf("fetched %q, error %v", fetched, err)
		}
	})
}

func TestSetupOfAnImageWithAnotherKubeletDownloadsThatAlone(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.program("bin/kubelet", strings.ReplaceAll(hostKubelet, "1.36.2", "1.35.0"))
	h.publishAll()
	fetched, err := h.setup()
	if err != nil || len(fetched) != 2 || !strings.HasSuffix(fetched[0], "/kubelet") || h.content("/opt/bin/kubelet") != hostKubelet {
		t.Errorf("fetched %q, error %v", fetched, err)
	}
}

func TestSetupRefusesADownloadThatIsNotThePublishers(t *testing.T) {
	for name, sum := range map[string]string{
		"another checksum":           strings.Repeat("0", 64) + "  kubelet\n",
		"no checksum":                "Not Found\n",
		"a checksum of another file": strings.Repeat("0", 64) + "  kubeadm\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.publishAll()
			h.write("web/kubelet.sha256", sum)
			if _, err := h.setup(); err == nil {
				t.Error("the setup succeeded")
			}
			for _, path := range []string{"/opt/bin/kubelet", "/run/drover/provider-id.env"} {
				if _, err := os.Stat(h.path(path)); err == nil {
					t.Errorf("%s is there", path)
				}
			}
		})
	}
}

func TestSetupWithoutTheMetadataService(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.must(os.Remove(h.path("web/meta_data.json")))
	if _, err := h.setup(); err == nil {
		t.Error("a server that nobody names was set up")
	}
	h.write("/var/lib/drover/server-id", hostID+"\n")
	if _, err := h.setup(); err != nil || h.content("/run/drover/provider-id.env") != providerEnv {
		t.Errorf("an earlier boot's name was not taken: %v", err)
	}
}

func TestSetupWithTheOperatorsSettings(t *testing.T) {
	in := siteInput("ubuntu")
	in.ProviderIDPrefix = ""
	h := newHost(t, in)
	h.whole()
	h.must(os.MkdirAll(h.path("/usr/local/share/ca-certificates"), 0o755))
	h.write("/etc/containerd/config.toml", "SystemdCgroup = true\n")
	if fetched, err := h.setup(); err != nil || len(fetched) != 0 {
		t.Fatalf("fetched %q, error %v", fetched, err)
	}
	want := "[x.runtimes.runc.options]\nSystemdCgroup = true\n  ShimCgroup = ''\n[y]\n  config_path = \"" + h.root + "/etc/containerd/certs.d\"\n  sandbox = \"mirror.example/pause:3.10\"\n  sandboxer = 'podsandbox'\n"
	if got := h.content("/etc/containerd/config.toml"); got != want {
		t.Errorf("containerd's configuration:\n%s", got)
	}
	if got := h.content("/usr/local/share/ca-certificates/drover-1.crt"); got != certificate {
		t.Errorf("certificate: %q", got)
	}
	if got := h.content("/run/drover/provider-id.env"); got != "KUBELET_PROVIDER_ID=\n" {
		t.Errorf("provider ID: %q", got)
	}
	commands := h.content("commands")
	for _, c := range []string{"update-ca-certificates", "systemctl try-restart containerd.service", "systemctl try-restart systemd-resolved.service", "systemctl try-reload-or-restart ssh.service"} {
		if !strings.Contains(commands, c) {
			t.Errorf("%q was not called:\n%s", c, commands)
		}
	}
}

func TestASetupThatFailsSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		host func(*host)
		want string
	}{
		"a download that is not there is named (F-53)": {
			func(h *host) { h.must(os.Remove(h.path("web/kubelet"))) },
			"downloading https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet failed\n",
		},
		"a command that fails is named (F-53)": {
			func(h *host) { h.program("bin/modprobe", "#!/bin/bash\nexit 1\n") },
			": modprobe -a overlay br_netfilter nf_conntrack\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.publishAll()
			tc.host(h)
			if out, err := h.run(pathSetup); err == nil || !strings.Contains(out, tc.want) {
				t.Errorf("error %v, printed:\n%s", err, out)
			}
		})
	}
}

func TestWhichContainerdFitsAKubelet(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelet, containerd, want string
	}{
		"1.7 with a kubelet of 1.37 (F-54)":                       {"1.37.1", "containerd github.com/containerd/containerd 1.7.28 ", ""},
		"1.7 with a kubelet of 1.38 does not fit (F-54)":          {"1.38.0", "containerd github.com/containerd/containerd v1.7.28 b98a3aa", "kubelet 1.38.0 needs containerd 2.0 or newer and this image has 1.7: "},
		"2.0 with a kubelet of 1.38 (F-54)":                       {"1.38.0", "containerd github.com/containerd/containerd/v2 v2.0.5 fb4c30d", ""},
		"1.5 fits no kubelet (F-54)":                              {"1.30.0", "containerd github.com/containerd/containerd v1.5.18 2806fc1", "needs containerd 1.6 or newer and this image has 1.5: "},
		"a version of another form is not held against it (F-54)": {"1.38.0", "containerd of my own", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input("ubuntu", "{}")
			in.KubeletVersion = tc.kubelet
			h := newHost(t, in)
			h.whole()
			h.program("bin/kubelet", strings.ReplaceAll(hostKubelet, "1.36.2", tc.kubelet))
			h.program("bin/containerd", strings.ReplaceAll(hostContainerd, "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7", tc.containerd))
			out, err := h.run(pathSetup)
			if (err != nil) != (tc.want != "") || !strings.Contains(out, tc.want) {
				t.Errorf("error %v, printed:\n%s", err, out)
			}
		})
	}
}

func TestFlatcarsContainerdStartsWithAConfigurationThatIsThere(t *testing.T) {
	const dropIn = "/etc/systemd/system/containerd.service.d/10-drover-config.conf"
	in := siteInput("flatcar")
	userData, err := in.Render()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := kubelet.ParseUserData(userData)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Ignition writes no drop-in that names a file which is not there at boot (F-54)", func(t *testing.T) {
		for path, content := range boot.Files {
			if strings.HasPrefix(path, "/etc/systemd/system/") && strings.Contains(content, "/etc/containerd/config.toml") {
				t.Errorf("%s:\n%s", path, content)
			}
		}
	})
	t.Run("the setup puts it in place after the configuration, once (F-54)", func(t *testing.T) {
		h := newHost(t, in)
		h.whole()
		h.must(os.MkdirAll(h.path("/etc/ssl/certs"), 0o755))
		for path, content := range boot.Files {
			if path == pathOwnRuntimeConfig {
				h.write(path, h.local(content))
			}
		}
		for range 2 {
			if _, err := h.setup(); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.content(dropIn); !strings.Contains(got, "--config "+h.root+"/etc/containerd/config.toml") {
			t.Errorf("the drop-in:\n%s", got)
		}
		if n := strings.Count(h.content("commands"), "systemctl try-restart containerd.service"); n != 1 {
			t.Errorf("containerd was started again %d times, want once", n)
		}
	})
}

func TestTheReportOfAKubeletThatDoesNotJoin(t *testing.T) {
	for name, tc := range map[string]struct {
		host  func(*host)
		looks int
	}{
		"its last lines come once a minute, fifteen times (F-53)": {func(*host) {}, 15},
		"nothing comes once it has a certificate and stays up (F-53)": {func(h *host) {
			h.write("/var/lib/kubelet/pki/kubelet-client-current.pem", "x")
		}, 0},
		"the setup speaks for itself (F-53)": {func(h *host) { h.must(os.Remove(h.path("/run/drover/provider-id.env"))) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, input("ubuntu", "{}"))
			h.must(os.Symlink("/usr/bin/cut", h.path("bin/cut")))
			h.write("/run/drover/provider-id.env", "x")
			h.program("bin/sleep", "#!/bin/bash\n")
			h.program("bin/systemctl", "#!/bin/bash\necho 3\n")
			h.program("bin/journalctl", "#!/bin/bash\necho \"$*\" >>"+h.path("asked")+"\necho 'failed to run Kubelet: no route to host'\n")
			tc.host(h)
			out, err := h.run(pathReport)
			if n := strings.Count(out, "no route to host\n"); err != nil || n != tc.looks {
				t.Errorf("%d looks, want %d, error %v", n, tc.looks, err)
			}
			if tc.looks > 0 && !strings.Contains(h.content("asked"), "--lines 20") {
				t.Errorf("asked %q", h.content("asked"))
			}
		})
	}
}
