package bootstrap

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

var update = flag.Bool("update", false, "write the golden files again")

func input(operatingSystem, spec string) *Input {
	return &Input{
		Name: "nodes-abc-12345",
		Provider: &v1alpha1.ProviderConfig{
			OperatingSystem: operatingSystem, OperatingSystemSpec: runtime.RawExtension{Raw: []byte(spec)},
			SSHPublicKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO someone@example"},
		},
		KubeletVersion: "v1.36.2",
		Kubelet:        DefaultKubeletSettings(),
		Server:         "https://api.example:6443",
		CA:             []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
		Token:          Token{ID: "abcdef", Secret: "0123456789abcdef"},
		ClusterDNS:     []string{"10.96.0.10"},
		ClusterDomain:  "cluster.local",
		Labels:         map[string]string{"team": "blue", "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "a"},
		Taints: registrationTaints([]corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			v1alpha1.DefaultStartupTaint),
		ProviderIDPrefix: "openstack:///",
	}
}

// siteInput returns an input with all settings of an operator and a Machine.
func siteInput(operatingSystem string) *Input {
	in := input(operatingSystem, `{}`)
	in.Provider.CAPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICA ca"
	in.Provider.Network = &v1alpha1.NetworkConfig{IPFamily: "IPv6+IPv4", DNS: v1alpha1.DNSConfig{Servers: []string{"192.0.2.53", "2001:db8::53"}}}
	in.Site = Site{
		HTTPProxy: "http://user:pa55word@proxy.example:3128", NoProxy: "10.0.0.0/8,.example",
		RegistryMirrors: []string{"mirror.example", "quay.io=http://mirror.example:5000/v2/quay"}, InsecureRegistries: []string{"lab.example:5000", "mirror.example:5000"},
		PauseImage: "mirror.example/pause:3.10", CABundle: []byte(certificate + certificate), ContainerdVersion: "v2.0.5", RuncVersion: "v1.4.9", CNIPluginsVersion: "1.8.2",
		Packages: []string{"nfs-common", "cifs-utils"},
	}
	in.Kubelet.FeatureGates = map[string]bool{"A": true, "B": false}
	return in
}

const certificate = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"

func TestRenderedUserDataIsCompleteAndEqualsTheGoldenFiles(t *testing.T) {
	for _, tt := range []struct{ name, of, system, spec string }{
		{"ubuntu", "ubuntu", "ubuntu", `{}`},
		{"ubuntu-upgraded", "ubuntu with distUpgradeOnBoot", "ubuntu", `{"distUpgradeOnBoot": true}`},
		{"flatcar", "flatcar", "flatcar", `{"disableAutoUpdate": true}`},
		{"ubuntu-site", "ubuntu with the operator's site settings", "ubuntu", `{}`},
		{"flatcar-site", "flatcar with the operator's site settings", "flatcar", `{}`},
	} {
		golden := filepath.Join("testdata", tt.name+".golden")
		input := func(system, spec string) *Input {
			if strings.HasSuffix(tt.name, "-site") {
				return siteInput(system)
			}
			return input(system, spec)
		}
		got, err := input(tt.system, tt.spec).render(plainContents)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := input(tt.system, tt.spec).Render()
		if err != nil {
			t.Fatal(err)
		}
		t.Run("the user data for "+tt.of+" equals its golden file", func(t *testing.T) {
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the user data differs from %s; run the test with -update and read the difference", golden)
			}
		})
		t.Run("the user data for "+tt.of+" is the same when it is rendered again", func(t *testing.T) {
			again, err := input(tt.system, tt.spec).Render()
			if err != nil || !bytes.Equal(sent, again) {
				t.Errorf("the second rendering differs (error %v)", err)
			}
		})
		t.Run("the user data for "+tt.of+" contains every file and setting that a kubelet needs", func(t *testing.T) { testFiles(t, sent) })
	}
}

func testFiles(t *testing.T, userData []byte) {
	boot, err := kubelet.ParseUserData(userData)
	if err != nil {
		t.Fatal(err)
	}
	if boot.Hostname != "nodes-abc-12345" {
		t.Errorf("host name %q", boot.Hostname)
	}
	for path, parts := range map[string][]string{
		kubelet.BootstrapFile: {"token: abcdef.0123456789abcdef", "server: https://api.example:6443", "certificate-authority: " + kubelet.CAFile},
		kubelet.CAFile:        {"BEGIN CERTIFICATE"},
		kubelet.ConfigFile: {"kind: KubeletConfiguration", "rotateCertificates: true", "serverTLSBootstrap: true", "cgroupDriver: systemd",
			"- 10.96.0.10", "key: gpu", "key: " + v1alpha1.DefaultStartupTaint, "memory: 300Mi", "memory: 500Mi", "maxPods: 110"},
		kubelet.ArgsFile:        {"--cloud-provider=external", "--hostname-override=nodes-abc-12345", "--node-labels=team=blue,topology.kubernetes.io/zone=a"},
		"/etc/drover/setup.env": {"KUBELET_VERSION='1.36.2'", "PROVIDER_ID_PREFIX='openstack:///'"},
	} {
		for _, part := range parts {
			if !strings.Contains(boot.Files[path], part) {
				t.Errorf("%s lacks %q:\n%s", path, part, boot.Files[path])
			}
		}
	}
	if strings.Contains(boot.Files[kubelet.ArgsFile], "node-role") {
		t.Error("the API server would refuse the label node-role.kubernetes.io/worker of the kubelet")
	}
	for path, content := range boot.Files {
		for _, bad := range []string{"curl -k", "--insecure", "curl -sk"} {
			if strings.Contains(content, bad) {
				t.Errorf("%s: %s", path, bad)
			}
		}
	}
}
