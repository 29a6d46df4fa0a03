package bootstrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

func TestUserDataContainsTheAddressAndCAOfTheAPIServer(t *testing.T) {
	info := clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443', certificate-authority-data: cHVibGljIENB}}]")
	for _, tt := range []struct {
		name   string
		info   *corev1.ConfigMap
		change func(*Options)
		server string // the API server's URL in the user data; or "waits: " and a part of the error, when drover cannot create user data yet
		ca     string
	}{
		{"the address and the CA come from the ConfigMap cluster-info", info, nil, "https://public:6443", "public CA"},
		{"the URL of --bootstrap-api-server takes precedence over the address in cluster-info", info, func(o *Options) { o.APIServer = "https://named:6443" }, "https://named:6443", "public CA"},
		{"without cluster-info, the URL of --bootstrap-api-server and the CA of drover's own connection are used", nil, func(o *Options) { o.APIServer = "https://named:6443" }, "https://named:6443", "own CA"},
		{"the CA of drover's own connection is used when cluster-info has no CA", clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443'}}]"), func(o *Options) { o.APIServer = "https://named" }, "https://named", "own CA"},
		{"a Machine waits when drover runs in a pod, and neither cluster-info nor a flag names the API server's address", nil, func(o *Options) { o.InPod = true }, "waits: ConfigMap kube-public/cluster-info names no address of the API server that a server could reach; create the ConfigMap, or start drover with --bootstrap-api-server", ""},
		{"the address in cluster-info is used although it names no CA (F-152)", clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443'}}]"), func(o *Options) { o.InPod = true }, "https://public:6443", "own CA"},
		{"a Machine waits while cluster-info cannot be read (F-154)", clusterInfoMap("clusters: nothing"), nil, "waits: ConfigMap kube-public/cluster-info, key kubeconfig: ", ""},
		{"a Machine waits while no CA of the API server is known", nil, func(o *Options) { o.Target.GetConfig().CAData = nil }, "waits: no CA is known for the API server", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, m := family()
			m.OwnerReferences = nil
			objects := []client.Object{m}
			if tt.info != nil {
				objects = append(objects, tt.info)
			}
			s, _ := newSource(t, tt.change, objects...)
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "flatcar"})
			if part, waits := strings.CutPrefix(tt.server, "waits: "); waits {
				var w *Waiting
				if !errors.As(err, &w) || !strings.Contains(w.Message, part) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(got)
			if err != nil || !strings.Contains(boot.Files[kubelet.BootstrapFile], "server: "+tt.server) || boot.Files[kubelet.CAFile] != tt.ca {
				t.Errorf("CA %q, %s, error %v", boot.Files[kubelet.CAFile], boot.Files[kubelet.BootstrapFile], err)
			}
		})
	}
}

func TestUserDataContainsTheCAThatTheClusterHasNow(t *testing.T) {
	// ca returns the CA in the user data of a new Machine.
	ca := func(t *testing.T, s *Source, c client.Client, name string) string {
		t.Helper()
		_, _, m := family()
		m.OwnerReferences, m.Name, m.UID = nil, name, types.UID(name)
		if err := c.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "flatcar"})
		if err != nil {
			t.Fatal(err)
		}
		boot, err := kubelet.ParseUserData(got)
		if err != nil || !strings.Contains(boot.Files[kubelet.BootstrapFile], "server: ") {
			t.Fatalf("%+v, %v", boot, err)
		}
		return boot.Files[kubelet.CAFile]
	}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	t.Run("a server gets the new CA of cluster-info after five minutes at most, without a restart of drover (report 69)", func(t *testing.T) {
		info := clusterInfoMap("clusters: [{name: '', cluster: {server: 'https://public:6443', certificate-authority-data: cHVibGljIENB}}]")
		s, c := newSource(t, func(o *Options) { o.Clock = clock }, info)
		if got := ca(t, s, c, "first"); got != "public CA" {
			t.Fatalf("got %q", got)
		}
		info.Data["kubeconfig"] = strings.Replace(info.Data["kubeconfig"], "cHVibGljIENB", "bmV3IENB", 1)
		if err := c.Update(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(5 * time.Minute))
		if got := ca(t, s, c, "second"); got != "new CA" {
			t.Errorf("got %q, want the new CA", got)
		}
	})
	t.Run("a server gets the new CA from the file of drover's own connection after five minutes at most, without a restart of drover (report 69)", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ca.crt")
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first CA")
		s, c := newSource(t, func(o *Options) {
			o.APIServer, o.Clock = "https://named:6443", clock
			o.Target.GetConfig().CAData, o.Target.GetConfig().CAFile = nil, file
		})
		if got := ca(t, s, c, "first"); got != "first CA" {
			t.Fatalf("got %q", got)
		}
		write("new CA")
		clock.SetTime(clock.Now().Add(5 * time.Minute))
		if got := ca(t, s, c, "second"); got != "new CA" {
			t.Errorf("got %q, want the new CA", got)
		}
	})
}

// dnsService returns a Service of namespace kube-system with port 53, and with labels in pairs of key and value.
func dnsService(name, address string, labels ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	s.Spec.Ports = []corev1.ServicePort{{Port: 53}}
	if address != "" {
		s.Spec.ClusterIPs = strings.Split(address, ",")
	}
	return s
}

func TestTheResolverOfPodsIsTheClustersDNSService(t *testing.T) {
	external := dnsService("kube-dns", "")
	external.Spec.Type = corev1.ServiceTypeExternalName
	metrics := dnsService("coredns-metrics", "10.96.0.12", "k8s-app", "coredns")
	metrics.Spec.Ports[0].Port = 9153
	for _, tt := range []struct {
		name     string
		services []*corev1.Service
		flag     []string
		want     string // the addresses, or "waits: " and a part of the message
	}{
		{"Service kube-dns is used", []*corev1.Service{dnsService("kube-dns", "10.96.0.10")}, nil, "10.96.0.10"},
		{"both addresses of a Service with two IP families are used", []*corev1.Service{dnsService("kube-dns", "10.96.0.10,fd00::a")}, nil, "10.96.0.10 fd00::a"},
		{"a Service that CoreDNS's chart has named is found by its labels (F-152)", []*corev1.Service{dnsService("coredns", "10.96.0.11", "k8s-app", "coredns"), metrics}, nil, "10.96.0.11"},
		{"a Service with the label of kube-dns and another name is found (F-152)", []*corev1.Service{dnsService("rke2-coredns-rke2-coredns", "10.96.0.11", "k8s-app", "kube-dns")}, nil, "10.96.0.11"},
		{"a Service with the recommended label of CoreDNS is found (F-152)", []*corev1.Service{dnsService("dns", "10.96.0.11", "app.kubernetes.io/name", "coredns")}, nil, "10.96.0.11"},
		{"Service kube-dns comes before one with its label, such as that of NodeLocal DNSCache (F-152)", []*corev1.Service{
			dnsService("a", "10.96.0.11", "k8s-app", "kube-dns"), dnsService("kube-dns", "10.96.0.10"),
		}, nil, "10.96.0.10"},
		{"the Service that NodeLocal DNSCache uses itself is not the pods' (F-152)", []*corev1.Service{
			dnsService("coredns", "10.96.0.11", "k8s-app", "coredns"), dnsService("kube-dns-upstream", "10.96.0.12", "k8s-app", "kube-dns", "kubernetes.io/name", "KubeDNSUpstream"),
		}, nil, "10.96.0.11"},
		{"--cluster-dns takes precedence", []*corev1.Service{dnsService("kube-dns", "10.96.0.10")}, []string{"169.254.20.10"}, "169.254.20.10"},
		{"a Machine waits while there is no DNS Service (F-152)", []*corev1.Service{dnsService("web", "10.96.0.9")}, nil,
			"waits: no Service in namespace kube-system is known as the resolver for pods; create Service kube-dns or one with the label k8s-app=kube-dns, or start drover with --cluster-dns"},
		{"a Machine waits while Service kube-dns is headless (F-152)", []*corev1.Service{dnsService("kube-dns", "None")}, nil, "waits: Service kube-system/kube-dns has no cluster IP"},
		{"a Machine waits while Service kube-dns has no address yet (F-152)", []*corev1.Service{dnsService("kube-dns", "")}, nil, "waits: Service kube-system/kube-dns has no cluster IP"},
		{"a Machine waits while Service kube-dns is the name of another host (F-152)", []*corev1.Service{external}, nil, "waits: Service kube-system/kube-dns has no cluster IP"},
		{"a headless Service is not found by its labels (F-152)", []*corev1.Service{dnsService("monitoring-coredns", "None", "k8s-app", "kube-dns")}, nil, "waits: no Service in namespace kube-system"},
		{"a Machine waits while two Services have the labels, and the message names both (F-152)", []*corev1.Service{
			dnsService("old-dns", "10.96.0.11", "k8s-app", "kube-dns"), dnsService("coredns", "10.96.0.12", "k8s-app", "coredns"),
		}, nil, "waits: several Services in namespace kube-system have the labels of the resolver for pods: coredns, old-dns; remove"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, m := family()
			m.OwnerReferences = nil
			objects := []client.Object{m}
			for _, s := range tt.services {
				objects = append(objects, s.DeepCopy())
			}
			s, _ := newSource(t, func(o *Options) { o.ClusterDNS = tt.flag }, objects...)
			if err := s.Check(t.Context(), m); err != nil {
				t.Errorf("the check of the kubelet's version asks for a resolver: %v", err)
			}
			got, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OperatingSystem: "ubuntu"})
			if part, waits := strings.CutPrefix(tt.want, "waits: "); waits {
				var w *Waiting
				if !errors.As(err, &w) || !strings.Contains(w.Message, part) || !strings.Contains(w.Message, "or start drover with --cluster-dns") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			boot, err := kubelet.ParseUserData(got)
			if err != nil {
				t.Fatal(err)
			}
			var config kubeletv1beta1.KubeletConfiguration
			if err := yaml.Unmarshal([]byte(boot.Files[kubelet.ConfigFile]), &config); err != nil || strings.Join(config.ClusterDNS, " ") != tt.want {
				t.Errorf("the resolvers of pods are %q, error %v", config.ClusterDNS, err)
			}
		})
	}
	t.Run("user data that drover does not write needs no DNS Service (F-152)", func(t *testing.T) {
		_, _, m := family()
		m.OwnerReferences = nil
		s, _ := newSource(t, func(o *Options) { o.ClusterDNS = nil }, m)
		if _, err := s.UserData(t.Context(), m, &v1alpha1.ProviderConfig{OverwriteCloudConfig: ptr.To("#cloud-config\n")}); err != nil {
			t.Error(err)
		}
	})
}
