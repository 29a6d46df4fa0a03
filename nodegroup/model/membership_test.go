package model

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestANodeBelongsToTheGroupOfItsMachine(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 6, 1, 10)
	other := w.Pool("b", 1, 0, 3)
	m, n := p.Node("a-1")
	other.Node("b-1")
	region, regional := p.Node("a-2")
	regional.Spec.ProviderID = "openstack://RegionOne/" + pools.ServerOf("a-2")
	bare, bareNode := p.Node("a-3")
	bareNode.Spec.ProviderID = ""
	going, goingNode := p.Node("a-4", pools.Deleting)
	listed, listedNode := p.Node("a-5")
	p.Remove(listed)
	twin := n.DeepCopy()
	twin.Name = "a-1-again"
	w.Nodes = append(w.Nodes, twin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control-plane-1"}})
	pending := p.Machine("a-6")

	id := p.ID()
	for _, tc := range []struct {
		name string
		node membership.Node
		want string
	}{
		{"CA-C25 by provider ID", pools.Asked(n), id},
		{"CA-C25 by provider ID alone, CA-C35 without labels", membership.Node{ProviderID: n.Spec.ProviderID}, id},
		{"CA-C25 by a provider ID with a region where the Machine's has none", pools.Asked(regional), id},
		{"CA-C25 by a provider ID without the region that the node's has", membership.Node{ProviderID: *region.Spec.ProviderID}, id},
		{"CA-C25 another group's node", membership.Node{ProviderID: pools.ProviderID("b-1")}, other.ID()},
		{"CA-C26 by name, through nodeRef, without a provider ID", pools.Asked(bareNode), id},
		{"CA-C26 by owner label", membership.Node{Name: "x", Labels: map[string]string{v1alpha1.LabelOwnedBy: string(bare.UID)}}, id},
		{"CA-C26 by annotation", membership.Node{Name: "x", Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: pools.Namespace + "/a-3"}}, id},
		{"CA-C27 a control plane node", membership.Node{Name: "control-plane-1", ProviderID: pools.ProviderID("elsewhere")}, ""},
		{"CA-C27 a foreign node", membership.Node{Name: "x", ProviderID: "aws:///eu-1/i-1"}, ""},
		{"CA-C27 a foreign server with the name of one of ours", membership.Node{Name: "a-1", ProviderID: pools.ProviderID("elsewhere")}, ""},
		{"CA-C27 another provider's ID that ends like that of one of ours (F-20)", membership.Node{ProviderID: "aws:///eu-1/" + pools.ServerOf("a-1")}, ""},
		{"CA-C25 by provider ID in capital letters (F-20)", membership.Node{ProviderID: "OpenStack:///" + strings.ToUpper(pools.ServerOf("a-1"))}, id},
		{"CA-C27 nothing at all", membership.Node{}, ""},
		{"CA-C28 the placeholder of a Machine", pools.Fake(pools.MachineID(p, pending.Name), "unregistered"), id},
		{"CA-C28 the placeholder of a Machine that is gone", pools.Fake(pools.MachineID(p, "a-0"), "unregistered"), id},
		{"CA-C28 the placeholder of a Machine that has its node now", pools.Fake(pools.MachineID(p, m.Name), "unregistered"), id},
		{"CA-C28 the placeholder of a replica, of an older series", pools.Fake(pools.UnitID(p, 0, 7), "unregistered"), id},
		{"CA-C29 a template node", membership.Node{Name: "template-node-for-x-1-upcoming-0", Annotations: map[string]string{v1alpha1.AnnotationNodeGroup: id}}, id},
		{"CA-C29 a template node by its provider ID", membership.Node{Name: "template-node-for-x-1", ProviderID: id + "/template"}, id},
		{"CA-C29 a template node without a marker", membership.Node{Name: "template-node-for-x-1", Labels: map[string]string{"cluster-autoscaler.kubernetes.io/template-node": "true"}}, ""},
		{"CA-C29 a template node of a group that is no more", membership.Node{Name: "template-node-for-x-1", Annotations: map[string]string{v1alpha1.AnnotationNodeGroup: "MachineDeployment/x/y"}}, ""},
		{"CA-C31 the node of a Machine that is being deleted", pools.Asked(goingNode), ""},
		{"CA-C31 the node of a Machine that is being deleted, by owner label", membership.Node{Name: "x", Labels: map[string]string{v1alpha1.LabelOwnedBy: string(going.UID)}}, ""},
		{"CA-C31 CA-C34 the node of a listed Machine", pools.Asked(listedNode), ""},
		{"CA-C33 a second Node of the same server", pools.Asked(twin), id},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if g := snapshotOf(t, w).groupOf(tc.node); g != nil {
				got = g.ID
			}
			if got != tc.want {
				t.Errorf("the node belongs to %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSurplusMachinesAreHidden(t *testing.T) {
	for _, tc := range []struct {
		name   string
		build  func(w *pools.World) *pools.Pool
		hidden string
	}{
		{"CA-C32 the old node goes once the new one is registered", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 2, 1, 5)
			p.Node("old-1")
			p.Node("old-2")
			p.Set = p.Revision(2)
			p.Node("new-1")
			return p
		}, "old-1"},
		{"CA-C32 a new Machine without a node is hidden before any node that works", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 2, 1, 5)
			p.Node("old-1")
			p.Node("old-2")
			p.Set = p.Revision(2)
			p.Machine("new-1")
			return p
		}, "new-1"},
		{"CA-C32 after kubectl scale the marked node is hidden", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 1, 1, 5)
			p.Node("a-1")
			p.Node("a-2", func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "now"} })
			return p
		}, "a-2"},
		{"CA-C32 of two promises the one without a server is hidden", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 1, 1, 5)
			p.Machine("a-1", pools.WithServer)
			p.Machine("a-2")
			return p
		}, "a-2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := tc.build(w)
			s := snapshotOf(t, w)
			g := s.Groups[p.ID()]
			for _, m := range g.Members {
				if want := m.Machine.Name == tc.hidden; (g.Hidden[m.Machine.UID] == HiddenSurplus) != want {
					t.Errorf("machine %s hidden is %v, want %v", m.Machine.Name, !want, want)
				}
			}
		})
	}
}

func TestAMachineThatARolloutRemoves(t *testing.T) {
	t.Run("CA-C32 is hidden as deleting before its set has deleted it (F-33)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 1, 5)
		p.Node("old-1")
		old, _ := p.Node("old-2")
		p.Set.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: old.Name, UID: old.UID}}
		p.Set = p.Revision(2)
		p.Node("new-1")
		g := snapshotOf(t, w).Groups[p.ID()]
		for _, m := range g.Members {
			want := Hiding("")
			if m.Machine.Name == old.Name {
				want = HiddenDeleting
			}
			if got := g.Hidden[m.Machine.UID]; got != want {
				t.Errorf("machine %s is hidden as %q, want %q", m.Machine.Name, got, want)
			}
		}
	})
}

func TestWhatIsANodeGroup(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *v1alpha1.MachineDeployment)
		listed bool
	}{
		{"a deployment with both bounds", func(*v1alpha1.MachineDeployment) {}, true},
		{"CA-C17 one without a maximum is none", func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationsMaxSize[0]) }, false},
		{"CA-C17 one with a maximum of 0 is none", func(d *v1alpha1.MachineDeployment) {
			d.Annotations[v1alpha1.AnnotationsMinSize[0]], d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "0", "0"
		}, false},
		{"CA-C17 one whose minimum is above its maximum is none", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "9" }, false},
		{"CA-C17 one with a bound that is no number is none", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "many" }, false},
		{"CA-C17 the minimum may be missing", func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationsMinSize[0]) }, true},
		{"CA-C18 one that is being deleted is none", func(d *v1alpha1.MachineDeployment) { d.DeletionTimestamp = &metav1.Time{Time: pools.Noon} }, false},
		{"CA-C18 one that is paused by annotation is none", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPaused] = "true" }, false},
		{"CA-C18 nor by the annotation of Cluster API", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPausedCAPI] = "true" }, false},
		{"whatever its value, as for a Machine: false pauses too (F-27)", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPaused] = "false" }, false},
		{"CA-C18 spec.paused stops rollouts only", func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 2, 1, 5)
			tc.change(p.Deployment)
			v := NewView(snapshotOf(t, w), pools.Noon, nil)
			if got := len(v.Entries) == 1; got != tc.listed {
				t.Errorf("listed is %v, want %v (%s)", got, tc.listed, v.Snapshot.Groups[p.ID()].Refusal)
			}
		})
	}
}

func TestWhenAGapIsHeldOpen(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *v1alpha1.MachineDeployment)
		want   bool
	}{
		{"a rolling update holds units back", func(*v1alpha1.MachineDeployment) {}, true},
		{"OnDelete does not", func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
		}, false},
		{"a paused rollout does not", func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 2, 1, 5)
			p.Node("old")
			p.Set = p.Revision(2)
			tc.change(p.Deployment)
			if got := snapshotOf(t, w).Groups[p.ID()].Rolling; got != tc.want {
				t.Errorf("held open is %v, want %v", got, tc.want)
			}
		})
	}
}
