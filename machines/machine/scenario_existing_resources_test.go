package machine_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestAMachineKeepsOneOfSeveralServers(t *testing.T) {
	const late = "00000000-0000-4000-8000-0000000a1a7e"
	for _, tt := range []struct {
		name  string
		of    string // the ID of the server whose Node has registered; empty when there is no Node
		state cloud.ServerState
		want  string
	}{
		{"keeps the server that the cloud lists first when there is no Node (MCM-40)", "", cloud.ServerActive, "openstack:///00000000-0000-4000-8000-000000000001"},
		{"keeps the server whose Node has registered (MCM-40)", late, cloud.ServerActive, "openstack:///" + late},
		{"keeps the working server even if the Node of the failed server has registered (MCM-40)", late, cloud.ServerError, "openstack:///00000000-0000-4000-8000-000000000001"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, func(m *v1alpha1.Machine) { m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode} })
			instance, err := b.cloud.Instance(t.Context(), b.read())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := instance.EnsureServer(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			b.cloud.duplicates = map[types.UID][]*cloud.Server{"u": {{ID: late, Key: late, Name: "m", Owner: "u", State: tt.state, ProviderID: "openstack:///" + late}}}
			if tt.of != "" {
				b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + tt.of}})
			}
			b.pass()
			if m := b.read(); ptr.Deref(m.Spec.ProviderID, "") != tt.want || b.cloud.count("EnsureServer") != 1 || (m.Status.NodeRef != nil) != (tt.want == "openstack:///"+late) {
				t.Errorf("%s, %d calls, %+v", ptr.Deref(m.Spec.ProviderID, ""), b.cloud.count("EnsureServer"), m.Status)
			}
		})
	}
}

func TestCloudResourcesOfAMachineAreRecordedInItsStatus(t *testing.T) {
	t.Run("the Machine's status has port, floating IP and host, and the Event of a forced deletion names port and floating IP", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		if got := string(b.read().Status.ProviderStatus.Raw); !strings.Contains(got, `"portIDs":["port-m"]`) || !strings.Contains(got, `"floatingIPID":"address-m"`) || b.patches.count["*v1alpha1.Machine"] != 2 {
			t.Errorf("%s, %v", got, b.patches.count)
		}
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s); s.record.PortIDs, s.record.FloatingIPID = nil, "" })
		b.shown()
		if got := string(b.read().Status.ProviderStatus.Raw); !strings.Contains(got, `"hostID":"host-1"`) || !strings.Contains(got, "port-m") || !strings.Contains(got, "address-m") {
			t.Errorf("%s", got)
		}
		b.cloud.refusal = fault.New(fault.Auth, fault.CodeForbidden, "you may not")
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.end()
		b.pass()
		if got := b.events(); !strings.Contains(got, "port-m, address-m") {
			t.Errorf("%s", got)
		}
	})
}

func TestANodeThatTheMachinesStatusNames(t *testing.T) {
	t.Run("becomes the Machine's Node even when another Node has the server's name (MC-52, MC-63)", func(t *testing.T) {
		nodes := []*corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "by-label", Labels: map[string]string{v1alpha1.LabelOwnedBy: "u"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "m"}},
		}
		for first := range nodes {
			b := newBench(t, nil)
			b.pass()
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.records(nodes[first].Name)
			for _, n := range nodes[first:] {
				b.create(n.DeepCopy())
			}
			b.pass()
			if n := b.nodeNamed(nodes[first].Name); n.Annotations[v1alpha1.AnnotationNodeMachine] != "ns/m" {
				t.Errorf("of %d Nodes it did not choose %s: %+v", len(nodes)-first, nodes[first].Name, b.read().Status)
			}
		}
	})
	t.Run("is deleted with the Machine when it has the owner label, even if its name is not the server's (MC-63)", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		b.records("renamed")
		b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "renamed", Labels: map[string]string{v1alpha1.LabelOwnedBy: "u"}}})
		b.end()
		for range 3 {
			b.pass()
		}
		n := &corev1.Node{}
		if err := b.memory.client.Get(t.Context(), client.ObjectKey{Name: "renamed"}, n); err == nil || b.read().Name != "" {
			t.Errorf("node: %v, Machine %+v", err, b.read())
		}
	})
}

// records makes the Machine's status name a Node.
func (b *bench) records(node string) {
	b.t.Helper()
	m := b.read()
	m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node}
	b.update(m)
}

func (b *bench) nodeNamed(name string) *corev1.Node {
	b.t.Helper()
	n := &corev1.Node{}
	if err := b.memory.client.Get(b.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		b.t.Fatal(err)
	}
	return n
}
