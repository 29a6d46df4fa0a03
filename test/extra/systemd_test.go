//go:build extra

package extra

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/test/kubelet"
)

// systemRoot writes to root what systemd needs to load the units of the user data: the programs that they call, and the units that
// they name.
func systemRoot(t *testing.T, root string) {
	t.Helper()
	for _, program := range []string{"/opt/bin/kubelet", "/usr/bin/kubelet", "/usr/local/bin/containerd", "/usr/bin/containerd", "/sbin/modprobe"} {
		write(t, filepath.Join(root, program), "#!/bin/sh\n", 0o755)
	}
	for _, unit := range []string{
		"basic.target", "sysinit.target", "shutdown.target", "multi-user.target", "network.target", "network-online.target", "local-fs.target", "system.slice", "-.slice",
	} {
		write(t, filepath.Join(root, "/usr/lib/systemd/system", unit), "[Unit]\nDescription=x\n", 0o644)
	}
}

// testUnits checks the systemd units.
func testUnits(t *testing.T, root string, boot *kubelet.Boot) {
	systemRoot(t, root)
	write(t, filepath.Join(root, "/etc/systemd/system/containerd.service"), boot.Files["/opt/drover/containerd.service"], 0o644)
	for _, u := range append(slices.Clone(boot.Units), "containerd.service") {
		file := filepath.Join(root, "/etc/systemd/system", u)
		if _, err := os.Stat(file); err != nil {
			t.Errorf("the user data writes no %s", u)
			continue
		}
		run(t, "systemd-analyze", "verify", "--root="+root, u)
	}
}

// merged matches a line of systemd's own description of a unit, which it prints for debugging: the unit with its drop-ins.
var merged = regexp.MustCompile(`^\s*(Command Line|EnvironmentFile): (.+)$`)

// mergedUnit returns the command lines and the environment files of a unit, as systemd merges the unit with its drop-ins.
func mergedUnit(t *testing.T, root, unit string) (commands, environment []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--root="+root, unit)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=debug")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("systemd refuses %s: %v", unit, err)
	}
	described := false
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "-> Unit "); ok {
			described = name == unit+":"
		}
		found := merged.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case !described || found == nil:
		case found[1] == "Command Line":
			commands = append(commands, strings.NewReplacer(`"`, "", `\`, "").Replace(found[2]))
		default:
			environment = append(environment, found[2])
		}
	}
	return commands, environment
}

// kubeadmDropIn has the content of the drop-in in the Kubernetes project's Debian package kubeadm.
const kubeadmDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

// kubeletUnit has the content of the unit in the Kubernetes project's Debian package kubelet.
const kubeletUnit = `[Unit]
Description=kubelet
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`

// TestSystemdStartsTheKubeletOfTheUserDataOnEveryImage compares what systemd makes of drover's units and of those of an image.
func TestSystemdStartsTheKubeletOfTheUserDataOnEveryImage(t *testing.T) {
	const packaged = "/usr/lib/systemd/system/"
	const flags = "/opt/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/var/lib/kubelet/kubeconfig " +
		"--config=/var/lib/kubelet/config.yaml $KUBELET_EXTRA_ARGS $KUBELET_PROVIDER_ID"
	for name, files := range map[string]map[string]string{
		"without a kubelet": {},
		"with the Kubernetes project's packages (F-151)": {
			packaged + "kubelet.service": kubeletUnit, packaged + "kubelet.service.d/10-kubeadm.conf": kubeadmDropIn,
		},
		"with a unit and a drop-in of its own in /etc (F-151)": {
			"/etc/systemd/system/kubelet.service.d/99-image.conf": "[Service]\nEnvironmentFile=-/etc/sysconfig/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet --v=2\n",
		},
		"with a drop-in for all services that reads other variables (F-151)": {
			packaged + "service.d/50-image.conf": "[Service]\nEnvironmentFile=-/etc/sysconfig/kubelet\n",
		},
	} {
		t.Run("systemd starts drover's kubelet with its flags on an image "+name, func(t *testing.T) {
			root := imageWith(t, inputs()["ubuntu"], files)
			commands, environment := mergedUnit(t, root, "kubelet.service")
			if !slices.Equal(commands, []string{flags}) {
				t.Errorf("systemd starts %q, want %q", commands, flags)
			}
			if want := []string{kubelet.ArgsFile, "/run/drover/provider-id.env"}; !slices.Equal(environment, want) {
				t.Errorf("the kubelet's variables come from %q, want %q", environment, want)
			}
		})
	}
	t.Run("containerd uses drover's proxy on an image whose drop-in reads another one (F-151)", func(t *testing.T) {
		root := imageWith(t, inputs()["ubuntu with every option"], map[string]string{
			packaged + "containerd.service":                          "[Service]\nExecStart=/usr/bin/containerd\n",
			"/etc/systemd/system/containerd.service.d/99-image.conf": "[Service]\nEnvironmentFile=-/etc/proxy\n",
		})
		if _, environment := mergedUnit(t, root, "containerd.service"); environment[len(environment)-1] != "/etc/drover/proxy.env" {
			t.Errorf("containerd's variables come from %q", environment)
		}
	})
}

// imageWith returns the root directory of a server that boots from an image with these files and gets the user data.
func imageWith(t *testing.T, in *bootstrap.Input, files map[string]string) string {
	t.Helper()
	userData, err := in.Render()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := kubelet.ParseUserData(userData)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	systemRoot(t, root)
	for _, all := range []map[string]string{files, boot.Files} {
		for path, content := range all {
			write(t, filepath.Join(root, path), content, 0o644)
		}
	}
	return root
}
