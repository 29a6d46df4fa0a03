//go:build extra

package extra

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/test/kubelet"
)

// programs are the required programs, each with the Debian package that contains it.
var programs = map[string]string{
	"cloud-init": "cloud-init", "go": "golang-go", "shellcheck": "shellcheck", "systemd-analyze": "systemd", "bash": "bash", "ssh-keygen": "openssh-client",
}

func TestMain(m *testing.M) {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name+" (Debian package "+programs[name]+")")
		}
	}
	if len(missing) > 0 {
		println("make test-extra needs programs that are not here: " + strings.Join(missing, ", "))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// inputs returns inputs for user data, from the smallest to one with every option.
func inputs() map[string]*bootstrap.Input {
	certificate := "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"
	out := map[string]*bootstrap.Input{}
	for _, system := range []string{"ubuntu", "flatcar"} {
		for _, much := range []bool{false, true} {
			in := &bootstrap.Input{
				Name: "nodes-abc-12345", Provider: &v1alpha1.ProviderConfig{OperatingSystem: system},
				KubeletVersion: "1.36.2", Kubelet: bootstrap.DefaultKubeletSettings(), Server: "https://api.example:6443", CA: []byte(certificate),
				Token: bootstrap.Token{ID: "abcdef", Secret: "0123456789abcdef"}, ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
				ProviderIDPrefix: "openstack:///",
			}
			name := system
			if much {
				name += " with every option"
				everything(in, certificate)
			}
			out[name] = in
		}
	}
	return out
}

func everything(in *bootstrap.Input, certificate string) {
	in.Labels = map[string]string{"team": "blue", "empty": ""}
	in.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	in.Provider.SSHPublicKeys = []string{`ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO it's "me": #1`}
	in.Provider.CAPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q ca"
	in.Provider.Network = &v1alpha1.NetworkConfig{IPFamily: "IPv6+IPv4", DNS: v1alpha1.DNSConfig{Servers: []string{"192.0.2.53"}}}
	if in.Provider.OperatingSystem == "ubuntu" {
		in.Provider.OperatingSystemSpec = runtime.RawExtension{Raw: []byte(`{"distUpgradeOnBoot": true}`)}
	} else {
		in.Provider.OperatingSystemSpec = runtime.RawExtension{Raw: []byte(`{"disableAutoUpdate": true}`)}
	}
	in.Kubelet.FeatureGates = map[string]bool{"NodeLogQuery": true}
	in.Kubelet.MaxPods, in.Kubelet.ContainerLogMaxSize, in.Kubelet.ContainerLogMaxFiles = 250, "100Mi", ptr.To[int32](7)
	in.Kubelet.ImageGCHighThresholdPercent, in.Kubelet.ImageGCLowThresholdPercent = ptr.To[int32](80), ptr.To[int32](70)
	in.Kubelet.ImageMinimumGCAge, in.Kubelet.ImageMaximumGCAge = metav1.Duration{Duration: time.Minute}, metav1.Duration{Duration: 24 * time.Hour}
	in.Site = bootstrap.Site{
		HTTPProxy: "http://user:pa55word@proxy.example:3128", NoProxy: "10.0.0.0/8", RegistryMirrors: []string{"https://mirror.example"},
		InsecureRegistries: []string{"lab.example:5000"}, PauseImage: "mirror.example/pause:3.10", CABundle: []byte(certificate),
		Packages: []string{"nfs-common", "cifs-utils"},
	}
}

// run runs a program, and fails the test with the program's output if the program fails.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestOtherProgramsAcceptTheUserData(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			userData, err := in.Render()
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(userData)
			if err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			for path, content := range boot.Files {
				mode := os.FileMode(0o644)
				if strings.HasPrefix(content, "#!") {
					mode = 0o755
				}
				write(t, filepath.Join(root, path), content, mode)
			}
			if in.Provider.OperatingSystem == "ubuntu" {
				t.Run("cloud-init schema accepts the user data", func(t *testing.T) {
					file := filepath.Join(t.TempDir(), "user-data")
					document, err := kubelet.Decompress(userData)
					if err != nil {
						t.Fatal(err)
					}
					write(t, file, string(document), 0o600)
					run(t, "cloud-init", "schema", "--config-file", file)
				})
			}
			t.Run("shellcheck finds no fault in the scripts of the user data", func(t *testing.T) { testScripts(t, root, boot) })
			t.Run("systemd accepts the units of the user data", func(t *testing.T) { testUnits(t, root, boot) })
			if in.Provider.CAPublicKey != "" {
				t.Run("ssh-keygen accepts the public key of the CA for SSH users", func(t *testing.T) {
					run(t, "ssh-keygen", "-l", "-f", filepath.Join(root, "/etc/ssh/drover-user-ca.pub"))
				})
			}
		})
	}
}

func TestTheKubeletAcceptsItsConfiguration(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kubeletconfig")
	run(t, "go", "-C", "kubeletconfig", "build", "-o", program, ".")
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			userData, err := in.Render()
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(userData)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml")
			write(t, file, boot.Files[kubelet.ConfigFile], 0o600)
			run(t, program, file)
		})
	}
	t.Run("the kubelet's own validation refuses a configuration with maxPods -1", func(t *testing.T) {
		file := filepath.Join(dir, "wrong.yaml")
		write(t, file, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -1\n", 0o600)
		if out, err := exec.CommandContext(t.Context(), program, file).CombinedOutput(); err == nil || !strings.Contains(string(out), "maxPods") {
			t.Errorf("error %v: %s", err, out)
		}
	})
}

func testScripts(t *testing.T, root string, boot *kubelet.Boot) {
	found := 0
	for path, content := range boot.Files {
		file := filepath.Join(root, path)
		switch {
		case strings.HasPrefix(content, "#!"):
			found++
			run(t, "shellcheck", file)
			run(t, "bash", "-n", file)
		case strings.HasSuffix(path, ".env"), path == kubelet.ArgsFile:
			run(t, "shellcheck", "--shell=sh", "--exclude=SC2034", file)
		}
	}
	if found == 0 {
		t.Error("there are none")
	}
}
