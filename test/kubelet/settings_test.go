package kubelet

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

var goodFiles = map[string]string{
	BootstrapFile: `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority: /etc/kubernetes/pki/ca.crt}}]
users: [{name: u, user: {token: abcdef.0123456789abcdef}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`,
	CAFile: "-----BEGIN CERTIFICATE-----\n",
	ConfigFile: `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
serverTLSBootstrap: true
registerWithTaints: [{key: node.syseleven.de/not-ready, effect: NoSchedule}]
kubeReserved: {cpu: 100m, memory: 200Mi}
`,
	ArgsFile:       `KUBELET_EXTRA_ARGS="--cloud-provider=external --node-labels=group=nodes,a/b=c --hostname-override=nodes-1"`,
	"/opt/install": "KUBELET_VERSION=1.37.1\nPROVIDER_ID_PREFIX=openstack:///\n",
}

func TestTheKubeletsSettingsAreReadFromUserData(t *testing.T) {
	s, err := readSettings(&Boot{Files: goodFiles}, identity{Name: "server-name", UUID: "0a1b"})
	if err != nil {
		t.Fatal(err)
	}
	if s.providerID != "openstack:///0a1b" {
		t.Errorf("provider ID: got %q", s.providerID)
	}
	if s.name != "nodes-1" || s.version != "v1.37.1" || !s.external || !s.config.ServerTLSBootstrap {
		t.Errorf("got %+v", s)
	}
	if want := map[string]string{"group": "nodes", "a/b": "c"}; !reflect.DeepEqual(s.labels, want) {
		t.Errorf("labels: got %v, want %v", s.labels, want)
	}
	if len(s.taints) != 1 || s.taints[0].Key != "node.syseleven.de/not-ready" {
		t.Errorf("taints: got %v", s.taints)
	}
	if s.bootstrap.BearerToken != "abcdef.0123456789abcdef" || string(s.bootstrap.CAData) != goodFiles[CAFile] {
		t.Errorf("bootstrap: token %q, CA %q", s.bootstrap.BearerToken, s.bootstrap.CAData)
	}
}

func TestInvalidSettingsOfAKubeletAreRefusedWithAnErrorThatNamesTheirFile(t *testing.T) {
	for name, c := range map[string]struct{ path, content, want string }{
		"user data without a bootstrap kubeconfig is refused":      {BootstrapFile, "", "the user data writes no such file"},
		"user data without a CA file is refused":                   {CAFile, "", "the user data writes no such file"},
		"user data without a kubelet configuration is refused":     {ConfigFile, "", "the user data writes no such file"},
		"user data without kubelet arguments is refused":           {ArgsFile, "", "the user data writes no such file"},
		"a kubelet configuration with an unknown field is refused": {ConfigFile, "clusterDSN: [10.0.0.1]\n", `unknown field "clusterDSN"`},
		"a bootstrap kubeconfig without a token is refused":        {BootstrapFile, strings.ReplaceAll(goodFiles[BootstrapFile], "token: abcdef.0123456789abcdef", "username: x"), "it holds no token"},
		"a node label that a kubelet may not set itself is refused": {ArgsFile, "KUBELET_EXTRA_ARGS=--node-labels=node-role.kubernetes.io/worker=",
			`a kubelet may not label itself "node-role.kubernetes.io/worker"`},
		"a kubelet argument that is not a flag is refused": {ArgsFile, "KUBELET_EXTRA_ARGS=node-labels=a=b", "is not a flag"},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(goodFiles)
			files[c.path] = c.content
			_, err := readSettings(&Boot{Files: files}, identity{Name: "n"})
			if err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s and %q", err, c.path, c.want)
			}
		})
	}
}

func TestUserDataWithoutAKubeletVersionIsRefused(t *testing.T) {
	files := maps.Clone(goodFiles)
	delete(files, "/opt/install")
	if _, err := readSettings(&Boot{Files: files}, identity{Name: "n"}); err == nil || !strings.Contains(err.Error(), "which version") {
		t.Errorf("got %v", err)
	}
}

func TestANodesAllocatableResourcesAreItsCapacityMinusReservationsAndEvictionThresholds(t *testing.T) {
	machine := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("2"),
		corev1.ResourceMemory:           resource.MustParse("4Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("50Gi"),
	}
	config := &kubeletconfig.KubeletConfiguration{
		KubeReserved:   map[string]string{"cpu": "100m", "memory": "200Mi"},
		SystemReserved: map[string]string{"memory": "100Mi"},
	}
	got, err := allocatable(capacity(machine, config), config)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: "1900m", corev1.ResourceMemory: "3696Mi", corev1.ResourceEphemeralStorage: "45Gi", corev1.ResourcePods: "110",
	} {
		if q := got[name]; q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: got %s, want %s", name, q.String(), want)
		}
	}
}

func TestAKubeletsRequestForAServingCertificateListsEachAddressOfTheNodeOnlyOnce(t *testing.T) {
	r := servingRequest([]corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}, {Type: corev1.NodeHostName, Address: "n1"},
		{Type: corev1.NodeInternalDNS, Address: "n1"},
	})
	if len(r.ips) != 1 || r.ips[0].String() != "10.0.0.5" || !reflect.DeepEqual(r.names, []string{"n1"}) {
		t.Errorf("got %v %v", r.ips, r.names)
	}
}
