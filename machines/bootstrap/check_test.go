package bootstrap

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestRenderingUserDataRefusesInvalidInput(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Input)
		says   string
	}{
		{"an unknown operating system", func(in *Input) { in.Provider.OperatingSystem = "windows" }, `operatingSystem "windows" is not supported: use ubuntu or flatcar`},
		{"an unsupported provisioningUtility of Flatcar", func(in *Input) {
			in.Provider.OperatingSystem, in.Provider.OperatingSystemSpec.Raw = "flatcar", []byte(`{"provisioningUtility": "butane"}`)
		}, `provisioningUtility "butane" is not supported: use ignition`},
		{"an invalid kubelet version", func(in *Input) { in.KubeletVersion = "1.36.2; reboot" }, `spec.versions.kubelet "1.36.2; reboot" is not a version`},
		{"a server name that is not a valid name of a node", func(in *Input) { in.Name = "Node_1" }, `spec.metadata.name "Node_1" cannot be a node's name`},
		{"a server name that is too long for a host name", func(in *Input) { in.Name = strings.Repeat("a", 64) }, "longer than 63"},
		{"a label whose value would add a flag to the kubelet's command line", func(in *Input) { in.Labels["x"] = "y --anonymous-auth=true" }, `spec.metadata.labels "x"=`},
		{"a label with an invalid key", func(in *Input) { in.Labels["x y"] = "" }, `spec.metadata.labels "x y"=`},
		{"a taint without an effect", func(in *Input) { in.Taints = []corev1.Taint{{Key: "a"}} }, "the effect must be NoSchedule"},
		{"a taint with an invalid key", func(in *Input) { in.Taints = []corev1.Taint{{Key: "a b", Effect: "NoSchedule"}} }, "spec.taints"},
		{"two taints of one key and effect with different values, with which the API server accepts no Node", func(in *Input) {
			in.Taints = []corev1.Taint{{Key: "app", Value: "a", Effect: "NoSchedule"}, {Key: "app", Value: "b", Effect: "NoSchedule"}}
		}, "spec.taints has the key app with the effect NoSchedule twice"},
		{"a second line of an entry of sshPublicKeys that is not a public key", func(in *Input) { in.Provider.SSHPublicKeys = []string{"ssh-ed25519 A b\nhello"} }, "sshPublicKeys[0] is not a public key"},
		{"an SSH CA key that is not a public key", func(in *Input) { in.Provider.CAPublicKey = "hello" }, "caPublicKey is not a public key"},
		{"an unknown address family", func(in *Input) { in.Provider.Network = &v1alpha1.NetworkConfig{IPFamily: "IPv5"} }, `network.ipFamily "IPv5"`},
		{"a DNS server that is not an IP address", func(in *Input) {
			in.Provider.Network = &v1alpha1.NetworkConfig{DNS: v1alpha1.DNSConfig{Servers: []string{"1.1.1.1\nDNS=x"}}}
		}, "is not an IP address"},
		{"an operatingSystemSpec with a value of the wrong type", func(in *Input) { in.Provider.OperatingSystemSpec.Raw = []byte(`{"distUpgradeOnBoot": "yes"}`) }, "operatingSystemSpec.distUpgradeOnBoot:"},
	}
	for _, tt := range tests {
		t.Run("refuses "+tt.name, func(t *testing.T) {
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

func TestATaintThatASpecRepeatsIsRegisteredOnce(t *testing.T) {
	taint := corev1.Taint{Key: "app", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Taint{Key: "app", Value: "a", Effect: corev1.TaintEffectNoExecute}
	if got := registrationTaints([]corev1.Taint{taint, other, taint}, ""); !slices.Equal(got, []corev1.Taint{taint, other}) {
		t.Errorf("got %v", got)
	}
}
