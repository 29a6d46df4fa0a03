package bootstrap

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

var update = flag.Bool("update", false, "write the golden files anew")

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

// siteInput is an input with all that an operator and a Machine may ask for.
func siteInput(operatingSystem string) *Input {
	in := input(operatingSystem, `{}`)
	in.Provider.CAPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICA ca"
	in.Provider.Network = &v1alpha1.NetworkConfig{IPFamily: "IPv6+IPv4", DNS: v1alpha1.DNSConfig{Servers: []string{"192.0.2.53", "2001:db8::53"}}}
	in.Site = Site{
		HTTPProxy: "http://user:pa55word@proxy.example:3128", NoProxy: "10.0.0.0/8,.example",
		RegistryMirrors: []string{"mirror.example", "quay.io=http://mirror.example:5000/v2/quay"}, InsecureRegistries: []string{"lab.example:5000", "mirror.example:5000"},
		PauseImage: "mirror.example/pause:3.10", CABundle: []byte(certificate + certificate), ContainerdVersion: "v2.0.5",
		FeatureGates: map[string]bool{"A": true, "B": true}, Packages: []string{"nfs-common", "cifs-utils"},
	}
	in.Kubelet.FeatureGates = map[string]bool{"B": false}
	return in
}

const certificate = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"

func TestRender(t *testing.T) {
	for _, tt := range []struct{ name, system, spec string }{
		{"ubuntu", "ubuntu", `{}`},
		{"ubuntu-upgraded", "ubuntu", `{"distUpgradeOnBoot": true}`},
		{"flatcar", "flatcar", `{"disableAutoUpdate": true}`},
		{"ubuntu-site", "ubuntu", `{}`},
		{"flatcar-site", "flatcar", `{}`},
	} {
		golden := filepath.Join("testdata", tt.name+".golden")
		input := func(system, spec string) *Input {
			if strings.HasSuffix(tt.name, "-site") {
				return siteInput(system)
			}
			return input(system, spec)
		}
		got, err := input(tt.system, tt.spec).Render()
		if err != nil {
			t.Fatal(err)
		}
		t.Run(tt.name+" is as it was", func(t *testing.T) {
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
		t.Run(tt.name+" is the same every time", func(t *testing.T) {
			again, err := input(tt.system, tt.spec).Render()
			if err != nil || !bytes.Equal(got, again) {
				t.Errorf("the second rendering differs (error %v)", err)
			}
		})
		t.Run(tt.name+" holds what a kubelet needs", func(t *testing.T) { testFiles(t, got) })
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
		t.Error("the kubelet would be refused the label node-role.kubernetes.io/worker")
	}
	for path, content := range boot.Files {
		for _, bad := range []string{"curl -k", "--insecure", "curl -sk"} {
			if strings.Contains(content, bad) {
				t.Errorf("%s: %s", path, bad)
			}
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Input)
		says   string
	}{
		{"an unknown operating system", func(in *Input) { in.Provider.OperatingSystem = "windows" }, `operatingSystem "windows" is not supported: use ubuntu or flatcar`},
		{"MC-44 CAPI-29 user data that Nova would refuse", func(in *Input) { in.Provider.OverwriteCloudConfig = ptr.To(strings.Repeat("x", 49150)) }, "65536 bytes in base64 form and may have 65535"},
		{"a misspelt key of the operating system's part", func(in *Input) { in.Provider.OperatingSystemSpec.Raw = []byte(`{"distUpgradeOnBot": true}`) }, "did you mean distUpgradeOnBoot?"},
		{"a way to provision Flatcar that there is not", func(in *Input) {
			in.Provider.OperatingSystem, in.Provider.OperatingSystemSpec.Raw = "flatcar", []byte(`{"provisioningUtility": "cloud-init"}`)
		}, `provisioningUtility "cloud-init" is not supported: use ignition`},
		{"a kubelet's version that is none", func(in *Input) { in.KubeletVersion = "1.36.2; reboot" }, `spec.versions.kubelet "1.36.2; reboot" is no version`},
		{"a name that no node can have", func(in *Input) { in.Name = "Node_1" }, `spec.metadata.name "Node_1" cannot be a node's name`},
		{"a name that is too long for a host", func(in *Input) { in.Name = strings.Repeat("a", 64) }, "longer than 63"},
		{"a label whose value would be a flag", func(in *Input) { in.Labels["x"] = "y --anonymous-auth=true" }, `spec.metadata.labels "x"=`},
		{"a label whose key is none", func(in *Input) { in.Labels["x y"] = "" }, `spec.metadata.labels "x y"=`},
		{"a taint without an effect", func(in *Input) { in.Taints = []corev1.Taint{{Key: "a"}} }, "the effect is NoSchedule"},
		{"a taint whose key is none", func(in *Input) { in.Taints = []corev1.Taint{{Key: "a b", Effect: "NoSchedule"}} }, "spec.taints"},
		{"a second key behind the first", func(in *Input) { in.Provider.SSHPublicKeys = []string{"ssh-ed25519 A b\nssh-ed25519 C d"} }, "sshPublicKeys[0] is no public key"},
		{"a CA that is no key", func(in *Input) { in.Provider.CAPublicKey = "hello" }, "caPublicKey is no public key"},
		{"a static address", func(in *Input) { in.Provider.Network = &v1alpha1.NetworkConfig{CIDR: "10.0.0.5/24"} }, "a server takes its address from its port; remove them"},
		{"an address family that is none", func(in *Input) { in.Provider.Network = &v1alpha1.NetworkConfig{IPFamily: "IPv5"} }, `network.ipFamily "IPv5"`},
		{"a resolver that is no address", func(in *Input) {
			in.Provider.Network = &v1alpha1.NetworkConfig{DNS: v1alpha1.DNSConfig{Servers: []string{"1.1.1.1\nDNS=x"}}}
		}, "is no IP address"},
		{"an operating system's part that cannot be read", func(in *Input) { in.Provider.OperatingSystemSpec.Raw = []byte(`{"distUpgradeOnBoot": "yes"}`) }, "operatingSystemSpec.distUpgradeOnBoot:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := input("ubuntu", "{}")
			tt.change(in)
			_, err := in.Render()
			var problem *Problem
			if !errors.As(err, &problem) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func TestOverwriteCloudConfig(t *testing.T) {
	in := input("ubuntu", "{}")
	in.Provider.OverwriteCloudConfig = ptr.To("#!/bin/sh\na <<MACHINE_NAME>> <MACHINE_NAME> <<BOOTSTRAP_TOKEN>> %3CMACHINE_NAME%3E")
	t.Run("MC-46 placeholders are filled, plain and escaped", func(t *testing.T) {
		got, err := in.Render()
		want := "#!/bin/sh\na nodes-abc-12345 nodes-abc-12345 abcdef.0123456789abcdef nodes-abc-12345"
		if err != nil || string(got) != want {
			t.Errorf("got %q, error %v", got, err)
		}
	})
}
