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

func TestWhichGroupANodeBelongsTo(t *testing.T) {
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
		{"a node with a Machine's provider ID belongs to the Machine's group (CA-C25)", pools.Asked(n), id},
		{"a request with only a node's provider ID finds the group of the node's Machine (CA-C25, CA-C35)", membership.Node{ProviderID: n.Spec.ProviderID}, id},
		{"a node whose provider ID has a region belongs to the group of a Machine whose provider ID has none (CA-C25)", pools.Asked(regional), id},
		{"a request whose provider ID lacks the region of the node's provider ID finds the node's group (CA-C25)", membership.Node{ProviderID: *region.Spec.ProviderID}, id},
		{"a node with the provider ID of a second group's Machine belongs to the second group (CA-C25)", membership.Node{ProviderID: pools.ProviderID("b-1")}, other.ID()},
		{"a node without a provider ID belongs to the group of the Machine whose nodeRef names the node (CA-C26)", pools.Asked(bareNode), id},
		{"a node with a Machine's owner label belongs to the Machine's group (CA-C26)", membership.Node{Name: "x", Labels: map[string]string{v1alpha1.LabelOwnedBy: string(bare.UID)}}, id},
		{"a node with an annotation that names a Machine belongs to the Machine's group (CA-C26)", membership.Node{Name: "x", Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: pools.Namespace + "/a-3"}}, id},
		{"a control plane node belongs to no group (CA-C27)", membership.Node{Name: "control-plane-1", ProviderID: pools.ProviderID("elsewhere")}, ""},
		{"a node of another cloud belongs to no group (CA-C27)", membership.Node{Name: "x", ProviderID: "aws:///eu-1/i-1"}, ""},
		{"a node with the name of a Machine but another server's provider ID belongs to no group (CA-C27)", membership.Node{Name: "a-1", ProviderID: pools.ProviderID("elsewhere")}, ""},
		{"a node belongs to no group when its provider ID is of another cloud and ends with a Machine's server ID (F-20, CA-C27)", membership.Node{ProviderID: "aws:///eu-1/" + pools.ServerOf("a-1")}, ""},
		{"a node whose provider ID is in capital letters belongs to the group of its Machine (F-20, CA-C25)", membership.Node{ProviderID: "OpenStack:///" + strings.ToUpper(pools.ServerOf("a-1"))}, id},
		{"a request with an empty node finds no group (CA-C27)", membership.Node{}, ""},
		{"the placeholder of a Machine belongs to the Machine's group (CA-C28)", pools.Fake(pools.MachineID(p, pending.Name), "unregistered"), id},
		{"the placeholder of a Machine that is gone belongs to the group in the placeholder's ID (CA-C28)", pools.Fake(pools.MachineID(p, "a-0"), "unregistered"), id},
		{"the placeholder of a Machine that has received its node belongs to the Machine's group (CA-C28)", pools.Fake(pools.MachineID(p, m.Name), "unregistered"), id},
		{"a placeholder whose number is above the group's size belongs to the group in the placeholder's ID (CA-C28)", pools.Fake(pools.UnitID(p, 0, 7), "unregistered"), id},
		{"a placeholder whose number is too large to be parsed belongs to no group (report 128)", pools.Fake(id+"/99999999999/0", "unregistered"), ""},
		{"a placeholder with more parts than drover writes belongs to no group (report 128)", pools.Fake(id+"/machine/a-1/again", "unregistered"), ""},
		{"a placeholder without the name of a Machine belongs to no group (report 128)", pools.Fake(id+"/machine/", "unregistered"), ""},
		{"a placeholder of another provider belongs to no group (report 128)", pools.Fake("azure:///subscriptions/x/virtualMachines/-1", "unregistered"), ""},
		{"a template node belongs to the group that its annotation names (CA-C29)", membership.Node{Name: "template-node-for-x-1-upcoming-0", Annotations: map[string]string{v1alpha1.AnnotationNodeGroup: id}}, id},
		{"a template node belongs to the group that its provider ID names (CA-C29)", membership.Node{Name: "template-node-for-x-1", ProviderID: id + "/template"}, id},
		{"a template node that names no group belongs to no group (CA-C29)", membership.Node{Name: "template-node-for-x-1", Labels: map[string]string{"cluster-autoscaler.kubernetes.io/template-node": "true"}}, ""},
		{"a template node of a deleted group belongs to no group (CA-C29)", membership.Node{Name: "template-node-for-x-1", Annotations: map[string]string{v1alpha1.AnnotationNodeGroup: "MachineDeployment/x/y"}}, ""},
		{"the node of a Machine that is being deleted belongs to no group (CA-C31)", pools.Asked(goingNode), ""},
		{"a node with the owner label of a Machine that is being deleted belongs to no group (CA-C31)", membership.Node{Name: "x", Labels: map[string]string{v1alpha1.LabelOwnedBy: string(going.UID)}}, ""},
		{"the node of a Machine that is listed in spec.removals belongs to no group (CA-C31, CA-C34)", pools.Asked(listedNode), ""},
		{"a second Node with the provider ID of a Machine's server belongs to the Machine's group (CA-C33)", pools.Asked(twin), id},
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

func TestSurplusMachinesAreHiddenFromTheAutoscaler(t *testing.T) {
	for _, tc := range []struct {
		name   string
		build  func(w *pools.World) *pools.Pool
		hidden string
	}{
		{"in a rollout an old Machine is hidden once the new Machine's node has registered (CA-C32)", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 2, 1, 5)
			p.Node("old-1")
			p.Node("old-2")
			p.Set = p.Revision(2)
			p.Node("new-1")
			return p
		}, "old-1"},
		{"in a rollout a new Machine without a node is hidden, and old Machines with a node stay visible (CA-C32)", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 2, 1, 5)
			p.Node("old-1")
			p.Node("old-2")
			p.Set = p.Revision(2)
			p.Machine("new-1")
			return p
		}, "new-1"},
		{"after kubectl scale lowered the size, the Machine with the annotation delete-machine is hidden (CA-C32)", func(w *pools.World) *pools.Pool {
			p := w.Pool("a", 1, 1, 5)
			p.Node("a-1")
			p.Node("a-2", func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "now"} })
			return p
		}, "a-2"},
		{"when one of two Machines is surplus, the one without a server is hidden (CA-C32)", func(w *pools.World) *pools.Pool {
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

func TestAMachineThatARolloutRemovesIsHiddenFromTheAutoscaler(t *testing.T) {
	t.Run("a Machine in its set's spec.rolloutRemovals is hidden before the set deletes it (F-33, CA-C32)", func(t *testing.T) {
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

func TestWhichDeploymentsAreListedAsNodeGroups(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *v1alpha1.MachineDeployment)
		listed bool
	}{
		{"a deployment with a minimum and a maximum is listed", func(*v1alpha1.MachineDeployment) {}, true},
		{"a deployment without a maximum is not listed (CA-C17)", func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationsMaxSize[0]) }, false},
		{"a deployment with a maximum of 0 is not listed (CA-C17)", func(d *v1alpha1.MachineDeployment) {
			d.Annotations[v1alpha1.AnnotationsMinSize[0]], d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "0", "0"
		}, false},
		{"a deployment whose minimum is above its maximum is not listed (CA-C17)", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMinSize[0]] = "9" }, false},
		{"a deployment whose maximum is not a number is not listed (CA-C17)", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "many" }, false},
		{"a deployment without a minimum is listed (CA-C17)", func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationsMinSize[0]) }, true},
		{"a deployment that is being deleted is not listed (CA-C18)", func(d *v1alpha1.MachineDeployment) { d.DeletionTimestamp = &metav1.Time{Time: pools.Noon} }, false},
		{"a deployment with drover's pause annotation is not listed (CA-C18)", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPaused] = "true" }, false},
		{"a deployment with Cluster API's pause annotation is not listed (CA-C18)", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPausedCAPI] = "true" }, false},
		{"a deployment with a pause annotation is not listed even when the annotation's value is false (F-27)", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPaused] = "false" }, false},
		{"a deployment with spec.paused, which only stops rollouts, is listed (CA-C18)", func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, true},
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

func TestWhichRolloutsMayLeaveReplicasWithoutAMachine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *v1alpha1.MachineDeployment)
		want   bool
	}{
		{"a rolling update may leave replicas without a Machine for some time", func(*v1alpha1.MachineDeployment) {}, true},
		{"a rollout with the strategy OnDelete does not leave replicas without a Machine", func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
		}, false},
		{"a paused rollout does not leave replicas without a Machine", func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, false},
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
