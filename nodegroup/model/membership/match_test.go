package membership_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// In these tests a Machine names another user's server and Node. Its author has written the Machine's status, or controls a cloud
// whose list contains that server.
func TestTheGroupOfANodeWithTheProviderIDOfAMachine(t *testing.T) {
	born := pools.Noon.Add(-time.Hour)
	for _, tt := range []struct {
		name   string
		change func(n *corev1.Node, victim *v1alpha1.Machine)
		// group is the pool that the Node must belong to; empty when it must belong to none.
		group string
	}{
		{"a Node with the label of the control plane belongs to no group (F-4)", func(n *corev1.Node, victim *v1alpha1.Machine) {
			n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			victim.Spec.ProviderID = nil
		}, ""},
		{"a Node with only the taint of the control plane belongs to no group (F-4)", func(n *corev1.Node, victim *v1alpha1.Machine) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/master", Effect: corev1.TaintEffectNoSchedule}}
			victim.Spec.ProviderID = nil
		}, ""},
		{"a Node that is older than the Machine belongs to no group (F-4)", func(n *corev1.Node, victim *v1alpha1.Machine) {
			n.CreationTimestamp = metav1.NewTime(born.Add(-time.Minute))
			victim.Spec.ProviderID = nil
		}, ""},
		{"a Node with the owner label of another group's Machine belongs to that other group (F-4)", func(n *corev1.Node, victim *v1alpha1.Machine) {
			n.Labels = map[string]string{v1alpha1.LabelOwnedBy: string(victim.UID)}
			victim.CreationTimestamp = metav1.NewTime(born.Add(time.Minute))
		}, "z"},
		{"a Node belongs to the older Machine's group when Machines of two groups have the Node's provider ID (F-4)", func(_ *corev1.Node, victim *v1alpha1.Machine) {
			victim.CreationTimestamp = metav1.NewTime(born.Add(-time.Minute))
		}, "z"},
		{"a Node belongs to the Machine's group when no other Machine has the Node's provider ID", func(_ *corev1.Node, victim *v1alpha1.Machine) { victim.Spec.ProviderID = nil }, "a"},
		{"a Node with the Machine's owner label belongs to the Machine's group even when the Node is older than the Machine", func(n *corev1.Node, victim *v1alpha1.Machine) {
			n.CreationTimestamp = metav1.NewTime(born.Add(-time.Minute))
			n.Labels = map[string]string{v1alpha1.LabelOwnedBy: "attacker"}
			victim.Spec.ProviderID = nil
		}, "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := pools.NewWorld()
			p, other := w.Pool("a", 1, 0, 3), w.Pool("z", 1, 0, 3)
			m, n := p.Node("a-1")
			victim := other.Machine("z-1", pools.WithServer)
			victim.Spec.ProviderID = m.Spec.ProviderID
			m.UID, m.CreationTimestamp = "attacker", metav1.NewTime(born)
			n.CreationTimestamp = metav1.NewTime(born.Add(time.Hour / 2))
			tt.change(n, victim)
			want := map[string]string{"a": p.ID(), "z": other.ID()}[tt.group]
			for how, node := range map[string]membership.Node{
				"the returned group is right when the request has all fields that the autoscaler sends for the Node": pools.Asked(n),
				"the returned group is right when the request has only the Node's provider ID":                       {ProviderID: n.Spec.ProviderID},
				"the returned group is right when the request has only the Node's name":                              {Name: n.Name},
			} {
				if got := groupOf(index(w), node); got != want {
					t.Errorf("%s: got %q, want %q", how, got, want)
				}
			}
		})
	}
}

// index returns the index of a cluster.
func index(w *pools.World) *membership.Index {
	var events []membership.Event
	for _, o := range w.Objects() {
		events = append(events, membership.Event{Object: o})
	}
	ix, _ := membership.NewIndex(pools.OpenStack, false).Apply(events)
	return ix
}

// groupOf returns the ID of the node group that a Node belongs to, or "" when it belongs to none.
func groupOf(ix *membership.Index, n membership.Node) string {
	if m := ix.Find(n); m != nil {
		return ix.GroupOf(m)
	}
	return ""
}
