package nodegroup

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// call is one DeleteNodes call after setup. It is made for group a, which has three nodes a-1 … a-3 and a minimum of 1.
type call struct {
	name  string
	setup func(p *pools.Pool, other *pools.Pool)
	nodes func(p *pools.Pool, other *pools.Pool) []membership.Node
	kind  model.Kind
	// size and removals are the expected values on the API server after the call.
	size     int32
	removals []string
	series   int32
}

func nodes(names ...string) func(*pools.Pool, *pools.Pool) []membership.Node {
	return func(*pools.Pool, *pools.Pool) []membership.Node {
		var list []membership.Node
		for _, n := range names {
			list = append(list, membership.Node{Name: n, ProviderID: pools.ProviderID(n)})
		}
		return list
	}
}

func machineNamed(p *pools.Pool, name string) *v1alpha1.Machine {
	for _, m := range p.World.Machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

func setReplicas(n int32) func(p, other *pools.Pool) {
	return func(p, _ *pools.Pool) { p.Deployment.Spec.Replicas = ptr.To(n) }
}

func setMin(low string) func(p, other *pools.Pool) {
	return func(p, _ *pools.Pool) { p.Deployment.Annotations[v1alpha1.AnnotationsMinSize[0]] = low }
}

func both(fs ...func(p, other *pools.Pool)) func(p, other *pools.Pool) {
	return func(p, other *pools.Pool) {
		for _, f := range fs {
			f(p, other)
		}
	}
}

var deleteCalls = []call{
	{name: "a node is removed and the size is lowered (CA-C65)", nodes: nodes("a-2"), size: 2, removals: []string{"a-2"}},
	{name: "two nodes are removed in one write (CA-C65)", nodes: nodes("a-2", "a-3"), size: 1, removals: []string{"a-2", "a-3"}},
	{name: "a node that a call names twice lowers the size only once (CA-C75)", nodes: nodes("a-2", "a-2"), size: 2, removals: []string{"a-2"}},
	{name: "a call for a node that is already listed for removal changes nothing (CA-C67)", nodes: nodes("a-2"), size: 2, removals: []string{"a-2"},
		setup: both(setReplicas(2), func(p, _ *pools.Pool) { p.Remove(machineNamed(p, "a-2")) })},
	{name: "a call for a node whose Machine was listed for removal and is gone changes nothing (CA-C67)", nodes: nodes("a-9"), size: 3, removals: []string{"a-9"},
		setup: func(p, _ *pools.Pool) { p.Remove(&v1alpha1.Machine{ObjectMeta: p.World.Meta("a-9")}) }},
	{name: "a node whose Machine a user is deleting is listed for removal, so that the Machine is not replaced (CA-C68)", nodes: nodes("a-2"), size: 2, removals: []string{"a-2"},
		setup: func(p, _ *pools.Pool) { pools.Deleting(machineNamed(p, "a-2")) }},
	{name: "a call for a node whose Machine a user is deleting does not lower the size below the minimum, so the Machine is replaced (CA-C68)", nodes: nodes("a-2"), size: 3, removals: []string{"a-2"},
		setup: both(setMin("3"), func(p, _ *pools.Pool) { pools.Deleting(machineNamed(p, "a-2")) })},
	{name: "a call for a node whose Machine a user is deleting removes no other node when the replacement has registered (CA-C68)", nodes: nodes("a-2"), size: 2, removals: []string{"a-2"},
		setup: both(setReplicas(2), func(p, _ *pools.Pool) { pools.Deleting(machineNamed(p, "a-2")) })},
	{name: "a call for two nodes whose Machines a user is deleting removes their one replacement without a node, and no working node (CA-C68)", nodes: nodes("a-2", "a-3"), size: 1, removals: []string{"a-2", "a-3", "a-4"},
		setup: both(setReplicas(2), func(p, _ *pools.Pool) {
			pools.Deleting(machineNamed(p, "a-2"))
			pools.Deleting(machineNamed(p, "a-3"))
			p.Machine("a-4")
		})},
	{name: "the additional Machine of a rollout is removed without lowering the size when it never joined (CA-C71)", size: 3, removals: []string{"new-1"},
		setup: func(p, _ *pools.Pool) { p.Set = p.Revision(2); p.Machine("new-1") },
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.MachineID(p, "new-1"), "unregistered")}
		}},
	{name: "a node that the set will delete because of kubectl scale is removed without lowering the size a second time", nodes: nodes("a-1"), size: 2, removals: []string{"a-1"},
		setup: both(setReplicas(2), func(p, _ *pools.Pool) {
			machineNamed(p, "a-1").Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "now"}
		})},
	{name: "the removal of an old node lowers the size while a rollout has new nodes for only some replicas (CA-C80)", nodes: nodes("a-1"), size: 2, removals: []string{"a-1"},
		setup: func(p, _ *pools.Pool) { p.Set = p.Revision(2); p.Node("new-1") }},
	{name: "the removal of an old node does not lower the size once a rollout has a new node for each replica (CA-C80)", nodes: nodes("a-1"), size: 3, removals: []string{"a-1"},
		setup: func(p, _ *pools.Pool) { p.Set = p.Revision(2); p.Node("new-1"); p.Node("new-2"); p.Node("new-3") }},
	{name: "a named node that the cache lacks lowers the size once, and not again as the replacement of a Machine that a user deletes (CA-C68)", nodes: nodes("a-2", "a-4"), size: 3, removals: []string{"a-2", "a-4"},
		setup: both(setReplicas(4), func(p, _ *pools.Pool) {
			pools.Deleting(machineNamed(p, "a-2"))
			p.Machine("a-4", pools.WithServer)
			p.Node("a-5")
		})},
	{name: "the removal of a working node is refused when the size is the minimum (CA-C73)", nodes: nodes("a-2"), kind: model.FailedPrecondition, size: 3, setup: setMin("3")},
	{name: "neither of two working nodes is removed when the minimum allows the removal of only one (CA-C73, CA-C77)", nodes: nodes("a-1", "a-2"), kind: model.FailedPrecondition, size: 3, setup: setMin("2")},
	{name: "a working node is not removed while a removal that is in progress has reached the minimum (report 153)", nodes: nodes("a-1"), kind: model.FailedPrecondition, size: 2, removals: []string{"a-2"},
		setup: both(setReplicas(2), setMin("2"), func(p, _ *pools.Pool) { p.Remove(machineNamed(p, "a-2")) })},
	{name: "a call that names a node which is listed for removal, and one more at the minimum, removes neither (report 153)", nodes: nodes("a-2", "a-1"), kind: model.FailedPrecondition, size: 2, removals: []string{"a-2"},
		setup: both(setReplicas(2), setMin("2"), func(p, _ *pools.Pool) { p.Remove(machineNamed(p, "a-2")) })},
	{name: "no node is removed when another group's node is named too (CA-C74)", kind: model.FailedPrecondition, size: 3,
		nodes: func(p, other *pools.Pool) []membership.Node {
			return append(nodes("a-1")(p, other), membership.Node{ProviderID: pools.ProviderID("b-1")})
		}},
	{name: "no node is removed when a node of no group is named too (CA-C74)", kind: model.FailedPrecondition, size: 3, nodes: nodes("a-1", "stranger")},
	{name: "the removal of another group's placeholder is refused (CA-C74)", kind: model.FailedPrecondition, size: 3,
		nodes: func(_, other *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(other, 0, 0), "unregistered")}
		}},
	{name: "the removal of a template node is refused (CA-C74)", kind: model.FailedPrecondition, size: 3,
		nodes: func(p, _ *pools.Pool) []membership.Node { return []membership.Node{pools.Fake(p.ID()+"/template", "")} }},
	{name: "a call without a node is refused", kind: model.InvalidArgument, size: 3, nodes: nodes()},
	{name: "a call for a node without name and provider ID is refused", kind: model.InvalidArgument, size: 3, nodes: func(*pools.Pool, *pools.Pool) []membership.Node { return []membership.Node{{}} }},

	{name: "a failed Machine is removed (CA-C69)", size: 3, removals: []string{"a-4"},
		setup: both(setReplicas(4), func(p, _ *pools.Pool) { p.Machine("a-4", pools.Failed(fault.CodeQuotaExceeded, "no more cores")) }),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.MachineID(p, "a-4"), "create-error")}
		}},
	{name: "at the minimum size, a call for a failed Machine succeeds, but keeps the Machine because drover tries its creation again (CA-C69)", size: 4,
		setup: both(setReplicas(4), setMin("4"), func(p, _ *pools.Pool) { p.Machine("a-4", pools.Failed(fault.CodeQuotaExceeded, "no more cores")) }),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.MachineID(p, "a-4"), "create-error")}
		}},
	{name: "a Machine that never joined is removed (CA-C70)", size: 3, removals: []string{"a-4"},
		setup: both(setReplicas(4), func(p, _ *pools.Pool) { p.Machine("a-4", pools.WithServer) }),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.MachineID(p, "a-4"), "unregistered")}
		}},
	{name: "the removal of a Machine that the autoscaler considers unregistered is refused when the Machine's node has registered (CA-C70)", kind: model.FailedPrecondition, size: 3,
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.MachineID(p, "a-2"), "unregistered")}
		}},
	{name: "the removal of an instance that the autoscaler considers unregistered is refused when a node has its provider ID (CA-C70)", kind: model.FailedPrecondition, size: 3,
		nodes: func(*pools.Pool, *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.ProviderID("a-2"), "unregistered")}
		}},
	{name: "a call for the placeholder of a Machine that no longer exists changes nothing (CA-C71)", size: 3,
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.MachineID(p, "a-7"), "unregistered")}
		}},
	{name: "the removal of a replica without a Machine lowers the size once, and renames the other placeholders (CA-C72)", size: 4, series: 1,
		setup: setReplicas(5), nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(p, 0, 1), "unregistered")}
		}},
	{name: "two replicas without a Machine are removed by one call (CA-C72)", size: 3, series: 1, setup: setReplicas(5),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(p, 0, 0), "unregistered"), pools.Fake(pools.UnitID(p, 0, 1), "unregistered"), pools.Fake(pools.UnitID(p, 0, 1), "unregistered")}
		}},
	{name: "a call for a placeholder of an earlier series changes nothing (CA-C71, CA-C72)", size: 5, series: 3,
		setup: both(setReplicas(5), func(p, _ *pools.Pool) { p.Deployment.Spec.PlaceholderSeries = ptr.To[int32](3) }),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(p, 2, 0), "unregistered")}
		}},
	{name: "a call for the placeholder of a replica that has a Machine by now changes nothing (CA-C72)", size: 3,
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(p, 0, 0), "unregistered")}
		}},
	{name: "a call for a replica without a Machine succeeds and changes nothing when the size is the minimum (CA-C72)", size: 5, setup: both(setReplicas(5), setMin("5")),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(p, 0, 0), "unregistered")}
		}},
	{name: "a call does not remove a replica whose Machine a rollout delays; its new placeholder restarts the autoscaler's timeout (CA-C72)", size: 4, series: 1,
		setup: both(setReplicas(4), func(p, _ *pools.Pool) { p.Set = p.Revision(2) }),
		nodes: func(p, _ *pools.Pool) []membership.Node {
			return []membership.Node{pools.Fake(pools.UnitID(p, 0, 0), "unregistered")}
		}},
	{name: "during a rollout, a call removes exactly the named node (CA-C80)", size: 2, removals: []string{"a-2"}, nodes: nodes("a-2"),
		setup: func(p, _ *pools.Pool) { p.Set = p.Revision(2); p.Machine("new-1") }},
	{name: "a call that would make spec.removals too long is refused", kind: model.ResourceExhausted, size: 3, nodes: nodes("a-2"),
		removals: fullList(),
		setup: func(p, _ *pools.Pool) {
			for i := range v1alpha1.MaxRemovals {
				p.Deployment.Spec.Removals = append(p.Deployment.Spec.Removals, v1alpha1.Removal{Name: fmt.Sprintf("gone-%04d", i), UID: types.UID(fmt.Sprint(i))})
			}
		}},
	{name: "the removal of a Machine replaces the entry in spec.removals for an earlier Machine of the same name", size: 2, removals: []string{"a-2"}, nodes: nodes("a-2"),
		setup: func(p, _ *pools.Pool) {
			p.Deployment.Spec.Removals = []v1alpha1.Removal{{Name: "a-2", UID: "earlier"}}
		}},
}

func fullList() []string {
	var names []string
	for i := range v1alpha1.MaxRemovals {
		names = append(names, fmt.Sprintf("gone-%04d", i))
	}
	return names
}

func TestWhatDeleteNodesRemovesAndRefuses(t *testing.T) {
	for _, tc := range deleteCalls {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p, other := w.Pool("a", 3, 1, 10), w.Pool("b", 1, 0, 10)
			for _, name := range []string{"a-1", "a-2", "a-3"} {
				p.Node(name)
			}
			other.Node("b-1")
			if tc.setup != nil {
				tc.setup(p, other)
			}
			b := newBench(t, w)
			err := b.groups.DeleteNodes(t.Context(), p.ID(), tc.nodes(p, other))
			wantKind(t, err, tc.kind)
			b.expect(p, tc.size, tc.removals...)
			if got := ptr.Deref(b.deployment(p).Spec.PlaceholderSeries, 0); got != tc.series {
				t.Errorf("the series is %d, want %d", got, tc.series)
			}
			if writes := b.patches.Load(); writes > 1 || tc.kind != "" && writes != 0 {
				t.Errorf("the call made %d writes", writes)
			}
			if err == nil {
				again := b.groups.DeleteNodes(t.Context(), p.ID(), tc.nodes(p, other))
				wantKind(t, again, "")
				b.expect(p, tc.size, tc.removals...)
			}
		})
	}
}

func TestAnswersRightAfterDeleteNodes(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 10)
	_, n := p.Node("a-1")
	p.Node("a-2")
	b := newBench(t, w)
	b.freeze()
	if err := b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}); err != nil {
		t.Fatal(err)
	}
	t.Run("the target size is already lowered (CA-C76)", func(*testing.T) { b.expect(p, 1, "a-1") })
	t.Run("the instance of the removed node is Deleting (CA-C76)", func(t *testing.T) {
		list, err := b.groups.Instances(p.ID())
		if err != nil || len(list) != 2 || list[0].State != model.Deleting || list[1].State != model.Running {
			t.Errorf("instances are %+v, error %v", list, err)
		}
	})
	t.Run("the removed node belongs to no group (CA-C34)", func(t *testing.T) {
		if g, ok := b.groups.ForNode(pools.Asked(n)); ok {
			t.Errorf("its group is %s", g.ID)
		}
	})
}

func TestDeleteNodesForAMachineThatAUserDeletesRemovesAReplacementWithoutANodeAndNoWorkingNode(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 10)
	_, works := p.Node("a-1")
	_, dies := p.Node("a-2", pools.Deleting)
	m, late := p.Node("a-3")
	m.Status.NodeRef, w.Nodes = nil, w.Nodes[:2]
	b := newBench(t, w)
	wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(dies)}), "")
	b.groups.store.inbox.put(membership.Event{Object: late})
	b.catchUp()
	if g, ok := b.groups.ForNode(pools.Asked(works)); !ok || g.ID != p.ID() {
		t.Error("CA-C68 a working node that nobody has named goes in its place")
	}
	if _, ok := b.groups.ForNode(pools.Asked(late)); ok {
		t.Error("CA-C68 the replacement stays")
	}
}

func TestTheErrorOfAFailedMachineIsHiddenAfterDeleteNodesAtTheMinimumSize(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 1, 10)
	p.Machine("a-1", pools.Failed(fault.CodeQuotaExceeded, "no more cores"))
	b := newBench(t, w)
	for i, want := range []bool{true, false} {
		list, err := b.groups.Instances(p.ID())
		if err != nil || len(list) != 1 || (list[0].Error != nil) != want {
			t.Errorf("CA-C69 in step %d the instances are %+v, error %v; error shown should be %v", i, list, err, want)
		}
		if err := b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-1"), "create-error")}); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
	}
	b.expect(p, 1)
}

func TestDecreaseTargetSize(t *testing.T) {
	for _, tc := range []struct {
		name     string
		setup    func(p *pools.Pool)
		delta    int32
		kind     model.Kind
		size     int32
		removals []string
		series   int32
	}{
		{"a delta of 0 is refused (CA-C83)", func(*pools.Pool) {}, 0, model.InvalidArgument, 2, nil, 0},
		{"a positive delta is refused (CA-C83)", func(*pools.Pool) {}, 1, model.InvalidArgument, 2, nil, 0},
		{"a call succeeds and changes nothing when every replica has a node (CA-C86)", func(*pools.Pool) {}, -1, "", 2, nil, 0},
		{"replicas without a Machine are removed before Machines without a node (CA-C84)", func(p *pools.Pool) {
			p.Deployment.Spec.Replicas = ptr.To[int32](5)
			p.Machine("a-3")
		}, -2, "", 3, nil, 1},
		{"Machines without a server are removed first, then failed Machines, then other Machines without a node (CA-C84)", func(p *pools.Pool) {
			p.Deployment.Spec.Replicas = ptr.To[int32](6)
			p.Machine("a-3", pools.WithServer)
			p.Machine("a-4")
			p.Machine("a-5", pools.WithServer, pools.Failed(fault.CodeNoValidHost, "no host"))
		}, -3, "", 3, []string{"a-4", "a-5"}, 1},
		{"a decrease by more than the number of Machines without a node removes these, and no Machine with a node (CA-C85)", func(p *pools.Pool) {
			p.Deployment.Spec.Replicas = ptr.To[int32](5)
			p.Machine("a-3", pools.WithServer)
			p.Machine("a-4")
		}, -5, "", 2, []string{"a-3", "a-4"}, 1},
		{"a decrease by the largest possible number removes no Machine with a node (CA-C85)", func(*pools.Pool) {}, -1 << 31, "", 2, nil, 0},
		{"a decrease below the minimum lowers the size to the minimum (CA-C87)", func(p *pools.Pool) {
			p.Deployment.Annotations[v1alpha1.AnnotationsMinSize[0]] = "3"
			p.Deployment.Spec.Replicas = ptr.To[int32](4)
			p.Machine("a-3")
			p.Machine("a-4")
		}, -2, "", 3, []string{"a-3"}, 0},
		{"a decrease does not remove a replica whose Machine a rollout delays; its new placeholder restarts the autoscaler's timeout (CA-C84)", func(p *pools.Pool) {
			p.Deployment.Spec.Replicas = ptr.To[int32](3)
			p.Set = p.Revision(2)
		}, -1, "", 3, nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 2, 1, 10)
			p.Node("a-1")
			p.Node("a-2")
			tc.setup(p)
			b := newBench(t, w)
			wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), tc.delta), tc.kind)
			b.expect(p, tc.size, tc.removals...)
			if got := ptr.Deref(b.deployment(p).Spec.PlaceholderSeries, 0); got != tc.series {
				t.Errorf("the series is %d, want %d", got, tc.series)
			}
			if writes := b.patches.Load(); writes > 1 {
				t.Errorf("CA-C88 the call made %d writes", writes)
			}
		})
	}
}

func TestDeleteNodesOfAPlaceholderAfterDecreaseTargetSize(t *testing.T) {
	t.Run("DeleteNodes of placeholders that DecreaseTargetSize has removed does not lower the size again (CA-C71, CA-C89)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 4, 0, 10)
		p.Node("a-1")
		p.Machine("a-2")
		b := newBench(t, w)
		if err := b.groups.DecreaseTargetSize(t.Context(), p.ID(), -3); err != nil {
			t.Fatal(err)
		}
		stale := []membership.Node{pools.Fake(pools.MachineID(p, "a-2"), "unregistered"), pools.Fake(pools.UnitID(p, 0, 0), "unregistered"), pools.Fake(pools.UnitID(p, 0, 1), "unregistered")}
		if err := b.groups.DeleteNodes(t.Context(), p.ID(), stale); err != nil {
			t.Fatal(err)
		}
		// The autoscaler takes back a scale-up that has timed out, and then removes the placeholders that it saw for the
		// scale-up. The size is lowered only once (CA-C71).
		b.expect(p, 1, "a-2")
	})
}
