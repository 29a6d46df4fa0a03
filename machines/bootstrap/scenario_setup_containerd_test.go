package bootstrap

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Configurations of images, as containerd shows them. That of containerd 2 is hostRuntimeConfig.
const (
	containerd1Config = `disabled_plugins = []
imports = ["/etc/containerd/config.toml"]
version = 2

[plugins]

  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "a/pause:1"

      [plugins."io.containerd.grpc.v1.cri".containerd.default_runtime]
        runtime_type = ""

        [plugins."io.containerd.grpc.v1.cri".containerd.default_runtime.options]

        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
            Root = ""
            SystemdCgroup = false

    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = ""

      [plugins."io.containerd.grpc.v1.cri".registry.configs."a.example".auth]
        username = "u"

      [plugins."io.containerd.grpc.v1.cri".registry.configs."a.example".tls]
        insecure_skip_verify = true

      [plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
        endpoint = ["https://old.example"]
`
	gpuConfig = `
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
      runtime_type = 'io.containerd.runc.v2'

      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
        BinaryName = '/usr/bin/nvidia-container-runtime'

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.legacy]
      runtime_type = 'io.containerd.runc.v2'

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.gvisor]
      runtime_type = 'io.containerd.runsc.v1'
`
)

func TestTheSetupScriptMendsOnlyWhatAKubeletNeedsOfContainerdsConfiguration(t *testing.T) {
	const driver, systemd = "SystemdCgroup = false", "SystemdCgroup = true"
	replaced := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	good := replaced(hostRuntimeConfig, driver, systemd)
	for name, tc := range map[string]struct {
		image string
		own   bool // mirrors and a pause image are set
		want  string
	}{
		"keeps a configuration with systemd as runc's cgroup driver (F-155)":      {good, false, good},
		"sees no cgroup driver in a comment (F-155)":                              {replaced(hostRuntimeConfig, driver, driver+" # SystemdCgroup = true"), false, good},
		"adds the cgroup driver where the configuration names none (F-155)":       {replaced(hostRuntimeConfig, "      "+driver+"\n", ""), false, replaced(hostRuntimeConfig, "      "+driver+"\n", "", "runc.options]\n", "runc.options]\n"+systemd+"\n")},
		"sets the cgroup driver in a configuration of containerd 1 (F-155)":       {containerd1Config, false, replaced(containerd1Config, driver, systemd)},
		"takes the value of another runtime for no answer about runc (F-155)":     {hostRuntimeConfig + replaced(gpuConfig, "BinaryName", systemd+"\n        BinaryName"), false, good + replaced(gpuConfig, "BinaryName", systemd+"\n        BinaryName") + legacyDriver},
		"keeps the runtimes for GPUs, and sets the cgroup driver in them (F-155)": {hostRuntimeConfig + gpuConfig, false, good + replaced(gpuConfig, "nvidia.options]\n", "nvidia.options]\n"+systemd+"\n") + legacyDriver},
		"keeps what the configuration imports (F-155)":                            {replaced(hostRuntimeConfig, "imports = []", "imports = ['/etc/containerd/conf.d/*.toml']"), false, replaced(good, "imports = []", "imports = ['/etc/containerd/conf.d/*.toml']")},
		"enables the CRI plugin that Docker's package disables (F-155)":           {replaced(good, "disabled_plugins = []", `disabled_plugins = ["io.containerd.snapshotter.v1.zfs", "cri"]`), false, replaced(good, "disabled_plugins = []", `disabled_plugins = ["io.containerd.snapshotter.v1.zfs"]`)},
		"keeps a list of registry folders that has the one for mirrors (F-155)": {
			replaced(good, "config_path = ''", "config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'", "a/pause:1", "mirror.example/pause:3.10"), true,
			replaced(good, "config_path = ''", "config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'", "a/pause:1", "mirror.example/pause:3.10"),
		},
		"replaces mirrors of the image by those of the operator, and keeps credentials (F-155)": {containerd1Config, true, replaced(
			containerd1Config[:strings.Index(containerd1Config, "      [plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"a.example\".tls]")],
			driver, systemd, `config_path = ""`, `config_path = "/etc/containerd/certs.d"`, "a/pause:1", "mirror.example/pause:3.10")},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			in := input("ubuntu", "{}")
			if tc.own {
				in = siteInput("ubuntu")
			}
			h := newHost(t, in)
			h.must(os.MkdirAll(h.path("/usr/local/share/ca-certificates"), 0o755))
			h.whole()
			h.write("/etc/containerd/config.toml", h.local(tc.image))
			if _, err := h.setup(); err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(h.local(tc.want), `imports = ["`+h.path("/etc/containerd/config.toml")+`"]`, "imports = []", 1)
			if got := h.content("/etc/containerd/config.toml"); got != want {
				t.Errorf("containerd's configuration is\n%s\nwant\n%s", got, want)
			}
			restarted := strings.Contains(h.content("commands"), "try-restart containerd.service")
			if restarted != (tc.image != tc.want) {
				t.Errorf("containerd is restarted: %v", restarted)
			}
		})
	}
}

// legacyDriver is the table that the setup adds for a runtime without options.
const legacyDriver = "\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.legacy.options]\nSystemdCgroup = true\n"

func TestAConfigurationThatContainerdCannotReadFailsTheSetupWithItsPath_F155(t *testing.T) {
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.write("/etc/containerd/config.toml", "x")
	h.program("bin/containerd", strings.Replace(hostContainerd, "sed -E", "false", 1))
	out, err := h.run(pathSetup)
	if want := "the setup failed: containerd cannot read the image's configuration " + h.path("/etc/containerd/config.toml") + "\n"; err == nil || !strings.Contains(out, want) {
		t.Errorf("error %v, printed\n%s\nwant\n%s", err, out, want)
	}
}

// configFlag matches the flag that names containerd's configuration.
var configFlag = regexp.MustCompile(`(--config|-c)[= ]\S+`)

func TestTheSetupScriptJudgesTheConfigurationWithWhichContainerdStarts(t *testing.T) {
	const dropIn = "/etc/systemd/system/containerd.service.d/zz-drover-config.conf"
	good := strings.ReplaceAll(hostRuntimeConfig, "SystemdCgroup = false", "SystemdCgroup = true")
	for name, tc := range map[string]struct {
		system, flag, config string
		changed              bool
	}{
		"keeps the configuration that Flatcar's unit names (F-155)":                           {"flatcar", "--config ${CONTAINERD_CONFIG}", good, false},
		"keeps the other flags of the unit, with variables and percent signs (F-155)":         {"ubuntu", "--root /srv/containerd --config=/opt/containerd.toml --state ${STATE} --address /srv/100%/containerd.sock", hostRuntimeConfig, true},
		"replaces a configuration that the unit names and a kubelet cannot use (F-155)":       {"ubuntu", "--config=" + "/opt/containerd.toml", hostRuntimeConfig, true},
		"starts containerd on Flatcar with a configuration that can be written (F-54, F-155)": {"flatcar", "-c $CONTAINERD_CONFIG", hostRuntimeConfig, true},
	} {
		t.Run("the setup "+name, func(t *testing.T) {
			h := newHost(t, input(tc.system, "{}"))
			h.whole()
			h.must(os.MkdirAll(h.path("/etc/ssl/certs"), 0o755))
			h.write("/opt/containerd.toml", tc.config)
			h.write("shown/ExecStart", "{ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd "+h.local(tc.flag)+" ; ignore_errors=no ; start_time=[n/a] }\n")
			h.write("shown/Environment", "A=b CONTAINERD_CONFIG="+h.path("/opt/containerd.toml")+"\n")
			for range 2 {
				if _, err := h.setup(); err != nil {
					t.Fatal(err)
				}
				if tc.changed { // systemd shows the drop-in's command now
					h.write("shown/ExecStart", "{ argv[]="+strings.TrimPrefix(h.content(dropIn), "[Service]\nExecStart=\nExecStart=")+" ; }\n")
				}
			}
			flags := configFlag.ReplaceAllLiteralString(tc.flag, "--config "+h.path("/etc/containerd/config.toml"))
			want := "[Service]\nExecStart=\nExecStart=/usr/bin/containerd " + strings.ReplaceAll(flags, "%", "%%") + "\n"
			if got := h.content(dropIn); (got == want) != tc.changed {
				t.Errorf("the drop-in is %q", got)
			}
			if got := h.content("/etc/containerd/config.toml"); (got == good) != tc.changed {
				t.Errorf("the configuration is\n%s", got)
			}
			n := strings.Count(h.content("commands"), "systemctl try-restart containerd.service")
			if n > 1 || (n == 1) != tc.changed {
				t.Errorf("two runs of the setup restart containerd %d times", n)
			}
		})
	}
}
