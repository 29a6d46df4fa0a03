package kubelet

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// metadataService answers for one server and refuses everybody else.
func metadataService(t *testing.T, id, userData string) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Instance-ID") != id {
			http.NotFound(w, r)
			return
		}
		body := userData
		if strings.HasSuffix(r.URL.Path, "/meta_data.json") {
			body = `{"uuid":"` + id + `","name":"n1"}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(service.Close)
	return service.URL
}

func TestWhatAServerLacksStandsOnItsConsole(t *testing.T) {
	for name, c := range map[string]struct{ id, userData, want string }{
		"another server's data is not given":  {"other", "#cloud-config\n", "fetching instance metadata: /openstack/latest/meta_data.json answers 404"},
		"a file that the user data lacks":     {"i1", "#cloud-config\nwrite_files: []\n", BootstrapFile + ": the user data writes no such file"},
		"user data of a kind that is unknown": {"i1", "hello", `begins with "hello"`},
	} {
		t.Run(name, func(t *testing.T) {
			var console []string
			err := Run(t.Context(), Options{
				MetadataURL: metadataService(t, "i1", c.userData), InstanceID: c.id,
				Console: func(line string) { console = append(console, line) },
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if want := []string{"cloud-init: " + err.Error()}; !slices.Equal(console, want) {
				t.Errorf("console: got %q, want %q", console, want)
			}
		})
	}
}

func nodeOf(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{ProviderID: providerID, Taints: []corev1.Taint{
			{Key: UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
}

func TestTheCloudControllerManagerInitializesNewNodes(t *testing.T) {
	for name, before := range map[string]*corev1.Node{
		"found by its provider ID": nodeOf("n1", "openstack:///u1"),
		"found by its name":        nodeOf("n1", ""),
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset([]runtime.Object{before}...)
			servers := func() []Server {
				return []Server{{ID: "u1", Name: "n1", Flavor: "m1.small", Zone: "z", Region: "r",
					Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
			}
			if err := syncNodes(t.Context(), client, servers); err != nil {
				t.Fatal(err)
			}
			n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n.Spec.ProviderID != "openstack:///u1" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "other" {
				t.Errorf("spec: got %+v", n.Spec)
			}
			labels := n.Labels[corev1.LabelInstanceTypeStable] + " " + n.Labels[corev1.LabelTopologyZone] + " " + n.Labels[corev1.LabelTopologyRegion]
			if labels != "m1.small z r" || len(n.Status.Addresses) != 1 {
				t.Errorf("labels %q, addresses %v", labels, n.Status.Addresses)
			}
		})
	}
}

func TestTheCloudControllerManagerDeletesTheNodeOfAVanishedServer(t *testing.T) {
	client := fake.NewClientset(nodeOf("gone", "openstack:///u1"), nodeOf("foreign", "other:///u1"), nodeOf("joining", ""))
	if err := syncNodes(t.Context(), client, func() []Server { return nil }); err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, n := range nodes.Items {
		left = append(left, n.Name)
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"foreign", "joining"}) {
		t.Errorf("got %v", left)
	}
}
