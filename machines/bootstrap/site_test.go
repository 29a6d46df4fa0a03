package bootstrap

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/kubelet"
)

func TestTheOperatorsSiteSettingsReachEveryServer(t *testing.T) {
	for _, system := range []string{"ubuntu", "flatcar"} {
		userData, err := siteInput(system).Render()
		if err != nil {
			t.Fatal(err)
		}
		boot, err := kubelet.ParseUserData(userData)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"/etc/containerd/certs.d/docker.io/hosts.toml":        "server = \"https://registry-1.docker.io\"\n\n[host.\"https://mirror.example\"]\n  capabilities = [\"pull\", \"resolve\"]\n",
			"/etc/containerd/certs.d/quay.io/hosts.toml":          "server = \"https://quay.io\"\n\n[host.\"http://mirror.example:5000/v2/quay\"]\n  capabilities = [\"pull\", \"resolve\"]\n  override_path = true\n  skip_verify = true\n",
			"/etc/containerd/certs.d/lab.example:5000/hosts.toml": "server = \"https://lab.example:5000\"\n\n[host.\"https://lab.example:5000\"]\n  capabilities = [\"pull\", \"resolve\"]\n  skip_verify = true\n",
			"/etc/drover/ca/0.crt":                                certificate,
			"/etc/drover/ca/1.crt":                                certificate,
			"/etc/ssh/drover-user-ca.pub":                         "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICA ca\n",
			"/etc/ssh/sshd_config.d/60-drover.conf":               "TrustedUserCAKeys /etc/ssh/drover-user-ca.pub\n",
			"/etc/systemd/resolved.conf.d/10-drover.conf":         "[Resolve]\nDNS=192.0.2.53 2001:db8::53\n",
		}
		got := map[string]string{}
		for path := range want {
			got[path] = boot.Files[path]
		}
		t.Run("a server with "+system+" has the files for mirrors, certificates, SSH and DNS", func(t *testing.T) {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
		for path, parts := range map[string][]string{
			"/etc/drover/proxy.env": {"HTTPS_PROXY='http://user:pa55word@proxy.example:3128'", "no_proxy='localhost,127.0.0.1,::1,169.254.169.254,api.example,10.0.0.0/8,.example'"},
			"/etc/systemd/system/containerd.service.d/zz-drover-proxy.conf": {"EnvironmentFile=/etc/drover/proxy.env"},
			"/etc/drover/setup.env": {"PAUSE_IMAGE='mirror.example/pause:3.10'", "CONTAINERD_VERSION='2.0.5'", "RUNC_VERSION='1.4.9'", "CNI_PLUGINS_VERSION='1.8.2'", "RUNTIME_CONFIG='own'"},
			kubelet.ConfigFile:      {"A: true", "B: false"},
			kubelet.ArgsFile:        {"--node-ip=::"},
		} {
			t.Run("a server with "+system+" has the operator's settings in the file "+path, func(t *testing.T) {
				for _, part := range parts {
					if !strings.Contains(boot.Files[path], part) {
						t.Errorf("lacks %q:\n%s", part, boot.Files[path])
					}
				}
			})
		}
	}
}

func TestTheCheckOfTheOperatorsSiteSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		site Site
		want string // part of the message; empty means valid
	}{
		{"accepts empty settings", Site{}, ""},
		{"accepts valid values of all settings together", siteInput("ubuntu").Site, ""},
		{"refuses a proxy without a scheme", Site{HTTPProxy: "proxy:3128"}, "HTTP proxy is not a URL"},
		{"refuses a proxy whose URL contains a quote", Site{HTTPProxy: "http://p'; reboot #"}, "HTTP proxy is not a URL"},
		{"refuses white space in the list of hosts that are reached without the proxy", Site{NoProxy: "a, b"}, `"a, b"`},
		{"refuses a registry whose mirror has no URL", Site{RegistryMirrors: []string{"quay.io="}}, `"quay.io=" is not of the form`},
		{"refuses a mirror whose URL contains a quote that would end a string in a TOML file", Site{RegistryMirrors: []string{`https://a/"]x`}}, "is not of the form"},
		{"refuses a mirror for a registry whose name contains '..', because the name becomes part of a path on the server", Site{RegistryMirrors: []string{"../..=https://a"}}, "is not of the form"},
		{"refuses an insecure registry with a path", Site{InsecureRegistries: []string{"a/b"}}, `"a/b" is not a host`},
		{"refuses an invalid pause image", Site{PauseImage: "a b"}, `"a b" is not an image`},
		{"refuses an invalid containerd version", Site{ContainerdVersion: "two"}, `containerd version "two" is not a version`},
		{"refuses an invalid runc version (F-153)", Site{RuncVersion: "1.5; reboot"}, `runc version "1.5; reboot" is not a version`},
		{"refuses an invalid version of the CNI plugins (F-153)", Site{CNIPluginsVersion: "latest"}, `CNI plugins version "latest" is not a version`},
		{"refuses a private key in the CA bundle", Site{CABundle: []byte("-----BEGIN PRIVATE KEY-----\nTUlJQg==\n-----END PRIVATE KEY-----\n")}, "certificates only"},
		{"refuses a CA bundle without a certificate", Site{CABundle: []byte("hello")}, "something other than certificates"},
		{"refuses a package whose name is an option of apt-get (F-41)", Site{Packages: []string{"nfs-common", "--purge"}}, `"--purge" is not the name of a Debian package`},
		{"refuses two invalid settings, and names both", Site{PauseImage: "a b", NoProxy: "a b"}, "list of hosts without proxy \"a b\" must have host names, domains and networks, separated by commas, and no white space\nthe nodes' pause image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.site.Check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAProxyURLIsRefusedUnlessShellsAndSystemdReadItAlike(t *testing.T) {
	in := siteInput("ubuntu")
	in.Site.HTTPProxy = "http://u:p%40$HOME;&*@proxy.example:3128"
	if err := in.Site.Check(); err == nil {
		t.Error("a dollar sign was taken, which systemd and shells read in different ways")
	}
	in.Site.HTTPProxy = "http://u:p%40;&*@proxy.example:3128"
	if err := in.Site.Check(); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "bash", "-c", `eval "$(cat)"; printf %s "$HTTP_PROXY"`)
	c.Stdin = strings.NewReader(in.Site.proxy(in.Server))
	out, err := c.Output()
	if err != nil || string(out) != in.Site.HTTPProxy {
		t.Errorf("got %q, error %v", out, err)
	}
}
