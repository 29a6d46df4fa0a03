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

func TestRender(t *testing.T) {
	for _, tt := range []struct{ name, system, spec string }{
		{"ubuntu", "ubuntu", `{}`},
		{"ubuntu-upgraded", "ubuntu", `{"distUpgradeOnBoot": true}`},
		{"flatcar", "flatcar", `{"disableAutoUpdate": true}`},
	} {
		golden := filepath.Join("testdata", tt.name+".golden")
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
		"/etc/drover/setup.env": {"KUBELET_VERSION=1.36.2", "PROVIDER_ID_PREFIX=openstack:///"},
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
		{"an operating system's part that cannot be read", func(in *Input) { in.Provider.OperatingSystemSpec.Raw = []byte(`{"distUpgradeOnBoot": "yes"}`) }, "operatingSystemSpec:"},
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

func TestCheckSkew(t *testing.T) {
	tests := []struct {
		name, kubelet, server, says string
	}{
		{"the same version", "1.37.1", "v1.37.1", ""},
		{"a newer patch", "1.37.9", "v1.37.1", ""},
		{"three minors older", "v1.34.0", "v1.37.1", ""},
		{"the API server of a distribution", "1.36.0", "v1.37.1+k3s1", ""},
		{"four minors older", "1.33.9", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"the seed's manifest on a newer control plane", "1.30.3", "v1.37.1", "spec.versions.kubelet 1.30.3 does not fit the API server's 1.37.1: allowed are 1.34 to 1.37"},
		{"a newer minor", "1.38.0", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"no version", "latest", "v1.37.1", `"latest" is no version`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckSkew(tt.kubelet, tt.server)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error: %v", err)
			}
		})
	}
}
