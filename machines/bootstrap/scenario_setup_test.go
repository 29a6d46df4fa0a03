package bootstrap

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheSetupScriptDownloadsNothingWhenTheImageHasAllComponents(t *testing.T) {
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

func TestTheSetupScriptFindsTheServersOwnUUID(t *testing.T) {
	const other = "11111111-2222-4333-8444-555555555555"
	for name, document := range map[string]string{
		"finds the UUID when meta_data.json has a metadata key uuid after the server's UUID (F-40)":  `{"uuid": "` + hostID + `", "launch_index": 0, "meta": {"uuid": "` + other + `"}, "keys": [{"uuid": "` + other + `"}]}`,
		"finds the UUID when meta_data.json has a metadata key uuid before the server's UUID (F-40)": `{"meta": {"uuid": "` + other + `"}, "name": "uuid", "launch_index": 0, "uuid":"` + hostID + `"}`,
		"finds the UUID when the value of a metadata key looks like JSON (F-40)":                     `{"meta": {"a": "}, \"uuid\": \"` + other + `\", {\\"}, "hostname": "x", "uuid": "` + hostID + `", "z": "{"}`,
		"finds the UUID when meta_data.json has several lines (F-40)":                                "{\n  \"uuid\": \"" + hostID + "\",\n  \"meta\": {\n    \"uuid\": \"" + other + "\"\n  }\n}\n",
	} {
		t.Run("the setup "+name, func(t *testing.T) {
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

func TestTheSetupScriptInstallsTheComponentsThatTheImageLacks(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.publishAll()
	fetched, err := h.setup()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the setup downloads each component and its checksum from the component's publisher", func(t *testing.T) {
		want := []string{
			"https://github.com/containerd/containerd/releases/download/v" + DefaultContainerd + "/containerd-" + DefaultContainerd + "-linux-amd64.tar.gz",
			"https://github.com/containerd/containerd/releases/download/v" + DefaultContainerd + "/containerd-" + DefaultContainerd + "-linux-amd64.tar.gz.sha256sum",
			"https://github.com/opencontainers/runc/releases/download/v" + DefaultRunc + "/runc.amd64",
			"https://github.com/opencontainers/runc/releases/download/v" + DefaultRunc + "/runc.sha256sum",
			"https://github.com/containernetworking/plugins/releases/download/v" + DefaultCNIPlugins + "/cni-plugins-linux-amd64-v" + DefaultCNIPlugins + ".tgz",
			"https://github.com/containernetworking/plugins/releases/download/v" + DefaultCNIPlugins + "/cni-plugins-linux-amd64-v" + DefaultCNIPlugins + ".tgz.sha256",
			"https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet",
			"https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet.sha256",
		}
		if !slices.Equal(fetched, want) {
			t.Errorf("got %q", fetched)
		}
	})
	t.Run("the setup installs every component", func(t *testing.T) {
		for path, want := range map[string]string{
			"/usr/local/bin/containerd": hostContainerd, "/usr/local/bin/ctr": "ctr", "/usr/local/sbin/runc": "runc",
			"/opt/cni/bin/loopback": "x", "/opt/cni/bin/bridge": "y", "/opt/bin/kubelet": hostKubelet, "/run/drover/provider-id.env": providerEnv,
		} {
			if got := h.content(path); got != want {
				t.Errorf("%s: %q", path, got)
			}
		}
		if got := h.content("/etc/containerd/config.toml"); got != strings.NewReplacer("SystemdCgroup = false", "SystemdCgroup = true", "config_path = ''", "config_path = \""+h.path("/etc/containerd/certs.d")+"\"").Replace(hostRuntimeConfig) {
			t.Errorf("containerd's configuration:\n%s", got)
		}
	})
	t.Run("the setup downloads nothing at the next boot", func(t *testing.T) {
		if fetched, err := h.setup(); err != nil || len(fetched) != 0 {
			t.Errorf("fetched %q, error %v", fetched, err)
		}
	})
}

func TestTheSetupScriptDownloadsOnlyTheKubeletWhenTheImageHasAnotherKubeletVersion(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.program("bin/kubelet", strings.ReplaceAll(hostKubelet, "1.36.2", "1.35.0"))
	h.publishAll()
	fetched, err := h.setup()
	if err != nil || len(fetched) != 2 || !strings.HasSuffix(fetched[0], "/kubelet") || h.content("/opt/bin/kubelet") != hostKubelet {
		t.Errorf("fetched %q, error %v", fetched, err)
	}
}

func TestTheSetupScriptRefusesADownloadWithoutAMatchingChecksum(t *testing.T) {
	for name, sum := range map[string]string{
		"refuses a download when the published checksum differs from that of the file": strings.Repeat("0", 64) + "  kubelet\n",
		"refuses a download when no checksum is published":                             "Not Found\n",
		"refuses a download when the published checksum is that of another file":       strings.Repeat("0", 64) + "  kubeadm\n",
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

func TestTheSetupScriptUsesTheServerIDOfAnEarlierBootWhenTheMetadataServiceFails(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.must(os.Remove(h.path("web/meta_data.json")))
	if _, err := h.setup(); err == nil {
		t.Error("a server without a name was set up")
	}
	// The first run has recorded whose the records are.
	h.write("/var/lib/drover/server-id", hostID+"\n")
	if _, err := h.setup(); err != nil || h.content("/run/drover/provider-id.env") != providerEnv {
		t.Errorf("the name of an earlier boot was not used: %v", err)
	}
}

func TestTheSetupScriptAppliesTheOperatorsSiteSettings(t *testing.T) {
	in := siteInput("ubuntu")
	in.ProviderIDPrefix = ""
	h := newHost(t, in)
	h.whole()
	h.must(os.MkdirAll(h.path("/usr/local/share/ca-certificates"), 0o755))
	h.write("/etc/containerd/config.toml", strings.ReplaceAll(hostRuntimeConfig, "SystemdCgroup = false", "SystemdCgroup = true"))
	if fetched, err := h.setup(); err != nil || len(fetched) != 0 {
		t.Fatalf("fetched %q, error %v", fetched, err)
	}
	want := strings.NewReplacer("SystemdCgroup = false", "SystemdCgroup = true", "config_path = ''", "config_path = \""+h.path("/etc/containerd/certs.d")+"\"",
		"'a/pause:1'", `"mirror.example/pause:3.10"`).Replace(hostRuntimeConfig)
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

func TestAFailedSetupOfAServerPrintsWhatFailed(t *testing.T) {
	for name, tc := range map[string]struct {
		host func(*host)
		want string
	}{
		"prints the URL of a download that failed (F-53)": {
			func(h *host) { h.must(os.Remove(h.path("web/kubelet"))) },
			"downloading https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet failed\n",
		},
		"prints the URL and both checksums of a download whose checksum is wrong": {
			func(h *host) { h.write("web/kubelet.sha256", strings.Repeat("0", 64)+"\n") },
			fmt.Sprintf("verifying https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet failed: its SHA-256 is %x, but https://dl.k8s.io/release/v1.36.2/bin/linux/amd64/kubelet.sha256 publishes %064d\n",
				sha256.Sum256([]byte(hostKubelet)), 0),
		},
		"prints the command that failed (F-53)": {
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

func TestTheSetupScriptChecksTheVersionOfContainerd(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelet, containerd, want string
	}{
		"accepts containerd 1.7 with a kubelet of 1.37 (F-54)":          {"1.37.1", "containerd github.com/containerd/containerd 1.7.28 ", ""},
		"refuses containerd 1.7 with a kubelet of 1.38 (F-54)":          {"1.38.0", "containerd github.com/containerd/containerd v1.7.28 b98a3aa", "kubelet 1.38.0 needs containerd 2.0 or newer and this image has 1.7: "},
		"accepts containerd 2.0 with a kubelet of 1.38 (F-54)":          {"1.38.0", "containerd github.com/containerd/containerd/v2 v2.0.5 fb4c30d", ""},
		"refuses containerd 1.5 even with a kubelet of 1.30 (F-54)":     {"1.30.0", "containerd github.com/containerd/containerd v1.5.18 2806fc1", "needs containerd 1.6 or newer and this image has 1.5: "},
		"accepts a containerd whose version has an unknown form (F-54)": {"1.38.0", "containerd of my own", ""},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
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

func TestTheReportOnTheConsoleShowsWhyAKubeletDoesNotJoin(t *testing.T) {
	for name, tc := range map[string]struct {
		host  func(*host)
		looks int
	}{
		"prints the last lines of the kubelet's log every minute for fifteen minutes (F-53)": {func(*host) {}, 15},
		"prints nothing once the kubelet has a certificate and keeps running (F-53)": {func(h *host) {
			h.write("/var/lib/kubelet/pki/kubelet-client-current.pem", "x")
		}, 0},
		"prints nothing before the setup has ended, because the setup reports its own failures (F-53)": {func(h *host) { h.must(os.Remove(h.path("/run/drover/provider-id.env"))) }, 0},
	} {
		t.Run("the report "+name, func(t *testing.T) {
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

// messages matches the commands that print why the setup cannot continue.
var messages = regexp.MustCompile(`echo [^\n]*(\\\n[^\n]*)?>&2`)

func TestEachErrorMessageOfTheSetupScriptContainsTheWordFailed(t *testing.T) {
	script, err := static.ReadFile("files/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	found := messages.FindAllString(string(script), -1)
	if len(found) < 6 {
		t.Fatalf("found %d messages in setup.sh, want at least 6", len(found))
	}
	for _, message := range found {
		if !strings.Contains(message, "failed") {
			t.Errorf("drover recognizes a failure by the word failed, which is missing in: %s", message)
		}
	}
}
