package nodegroup

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestOnlyCallsThatIncreaseAGroupNeedALeader(t *testing.T) {
	key := types.NamespacedName{Namespace: "drover", Name: "drover"}
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 50)
	_, n := p.Node("a-1")
	b := newBenchWithLease(t, w, key)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	lease.Spec.HolderIdentity = ptr.To("one")
	if err := b.client.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	// pass advances the clock while the API server answers. renewed is true when the lease is renewed meanwhile.
	pass := func(d time.Duration, renewed bool) {
		t.Helper()
		for ; d > 0; d -= probeEvery {
			b.clock.Step(probeEvery)
			b.catchUp()
			if renewed {
				lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
				if err := b.client.Update(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			b.probeOnce(t.Context())
		}
	}
	order := func() error { return b.groups.IncreaseSize(t.Context(), p.ID(), 1) }
	t.Run("increases are accepted while the lease is renewed", func(t *testing.T) {
		pass(5*time.Minute, true)
		wantKind(t, order(), "")
	})
	t.Run("increases are accepted when the lease was last renewed less than a minute ago", func(t *testing.T) {
		pass(50*time.Second, false)
		wantKind(t, order(), "")
	})
	t.Run("increases are refused when the lease was last renewed a minute ago", func(t *testing.T) {
		pass(10*time.Second, false)
		wantKind(t, order(), model.Unavailable)
	})
	t.Run("Refresh, decreases and removals are accepted without a leader", func(t *testing.T) {
		wantKind(t, b.groups.Refresh(t.Context()), "")
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -1), "")
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), "")
	})
	t.Run("increases are accepted again with a new leader", func(t *testing.T) {
		pass(probeEvery, true)
		wantKind(t, order(), "")
	})
	t.Run("increases are refused when no replica holds the lease, even when the lease was just updated", func(t *testing.T) {
		lease.Spec.HolderIdentity = ptr.To("")
		pass(time.Minute, true)
		wantKind(t, order(), model.Unavailable)
	})
}

func TestAnswersWhileAWatchIsBehind(t *testing.T) {
	t.Run("Refresh and increases fail when a watch has not delivered drover's own write in time (CA-C13, CA-C113)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 0, 50)
		b := newBench(t, w)
		b.freeze()
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		b.probeOnce(t.Context())
		b.clock.Step(staleAfter)
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable)
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.Unavailable)
		b.expect(p, 3)
		t.Run("a late watch event with an older size does not replace the size that drover has written (CA-C36)", func(t *testing.T) {
			b.groups.store.inbox.put(membership.Event{Object: p.Deployment})
			wantKind(t, b.groups.store.renew(false), "")
			b.expect(p, 3)
		})
		b.frozen = false
		b.catchUp()
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
	t.Run("Refresh fails when a watch has not delivered another client's change in time (CA-C13)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 0, 50)
		m := p.Machine("a-1")
		b := newBench(t, w)
		b.freeze()
		live := &v1alpha1.Machine{}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(m), live); err != nil {
			t.Fatal(err)
		}
		live.Labels["x"] = "y"
		if err := b.client.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		b.probeAll()
		b.clock.Step(staleAfter - time.Second)
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), "")
		b.clock.Step(time.Second)
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable)
		t.Run("Refresh succeeds again after the watch has delivered the change late", func(t *testing.T) {
			b.frozen = false
			b.catchUp()
			b.probeOnce(t.Context())
			wantKind(t, b.groups.Refresh(t.Context()), "")
		})
	})
}

func TestEachReplicaOfDroverDetectsALateWatchWithFewReads(t *testing.T) {
	key := types.NamespacedName{Namespace: "drover", Name: "drover"}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	lease.Spec.HolderIdentity = ptr.To("one")
	minute := func(t *testing.T, key types.NamespacedName) (*bench, int32) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 0, 50)
		for _, name := range []string{"a-1", "a-2", "a-3"} {
			p.Node(name)
		}
		b := newBenchWithLease(t, w, key)
		if err := b.client.Create(t.Context(), lease.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		for range time.Minute / probeEvery {
			b.clock.Step(probeEvery)
			b.probeOnce(t.Context())
		}
		return b, b.gets.Load() + b.firsts.Load()
	}
	t.Run("a replica of drover makes two reads from the API server every 5 s: the lease and one object (F-58)", func(t *testing.T) {
		b, got := minute(t, key)
		if want := int32(24); got != want {
			t.Errorf("%d reads in a minute, want %d", got, want)
		}
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
	t.Run("a replica of drover without a configured lease lists one object every 5 s instead of reading the lease (F-58)", func(t *testing.T) {
		b, got := minute(t, types.NamespacedName{})
		if want := int32(24); got != want {
			t.Errorf("%d reads in a minute, want %d", got, want)
		}
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
	t.Run("a watch that has not delivered the changes of all objects of its kind is detected as late by one live read per kind (F-58, CA-C13)", func(t *testing.T) {
		for _, list := range []client.ObjectList{&v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}} {
			w := pools.NewWorld()
			w.Pool("a", 1, 0, 50).Node("a-1")
			b := newBench(t, w)
			b.freeze()
			touchAll(t, b, list)
			for range len(membership.Kinds) - 1 {
				b.probeOnce(t.Context())
				b.clock.Step(probeEvery)
			}
			b.probeOnce(t.Context())
			b.clock.Step(staleAfter)
			b.probeOnce(t.Context())
			wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable)
		}
	})
	t.Run("a watch that has not delivered the change of one Machine is detected as late by repeated live reads of random Machines (F-58, CA-C13)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 20, 0, 200)
		for n := range 20 {
			p.Machine(fmt.Sprintf("a-%d", n))
		}
		b := newBench(t, w)
		b.freeze()
		touchAll(t, b, &v1alpha1.MachineList{}, "a-19")
		// The index keeps Machines in 256 parts. A probe takes the next part, and one of its Machines at random. The
		// probability that 100 rounds through all parts leave out one of three Machines is 10⁻¹⁷.
		for range 100 * 256 * len(membership.Kinds) {
			if b.probeOnce(t.Context()); b.groups.freshness.behind.Load() != 0 {
				break
			}
		}
		if b.groups.freshness.behind.Load() == 0 {
			t.Error("the one Machine of 20 that has changed was never read")
		}
	})
}

// touchAll changes a label of the named objects of a kind on the API server, or of all objects when names is empty.
func touchAll(t *testing.T, b *bench, list client.ObjectList, names ...string) {
	t.Helper()
	if err := b.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		object := o.(client.Object)
		if len(names) > 0 && !slices.Contains(names, object.GetName()) {
			return nil
		}
		object.SetLabels(map[string]string{"touched": "yes"})
		return b.client.Update(t.Context(), object)
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAFrozenGroup(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 3, 0, 10)
	_, n := p.Node("a-1")
	p.Deployment.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: "TooManyFailed", Message: "half of the machines failed"}}
	b := newBench(t, w)
	t.Run("a frozen group refuses increases (CA-C63)", func(t *testing.T) {
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.FailedPrecondition)
		b.expect(p, 3)
	})
	t.Run("a frozen group is still listed, and its debug text contains the word frozen (CA-C19, CA-C24)", func(t *testing.T) {
		wantKind(t, b.groups.Refresh(t.Context()), "")
		if got := b.groups.List(); len(got) != 1 || got[0].Debug != p.ID()+" (min 0, max 10, target 3, frozen)" {
			t.Errorf("CA-C24 the groups are %+v", got)
		}
	})
	t.Run("calls do not remove a replica whose Machine the freeze delays; its new placeholder restarts the autoscaler's timeout (CA-C72, CA-C84)", func(t *testing.T) {
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -1), "")
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.UnitID(p, 1, 0), "unregistered")}), "")
		b.expect(p, 3)
		if got := *b.deployment(p).Spec.PlaceholderSeries; got != 2 {
			t.Errorf("the series is %d", got)
		}
	})
	t.Run("a frozen group removes a node that DeleteNodes names", func(t *testing.T) {
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), "")
		b.expect(p, 2, "a-1")
	})
}

func TestWhichDeploymentsAreDiscoveredAsGroups(t *testing.T) {
	selector, err := labels.Parse("tier in (workers)")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		discovery model.Discovery
		change    func(*v1alpha1.MachineDeployment)
		listed    bool
	}{
		"a deployment is a group when no filter is configured":                    {model.Discovery{}, func(*v1alpha1.MachineDeployment) {}, true},
		"a deployment in one of the configured namespaces is a group":             {model.Discovery{Namespaces: []string{"x", pools.Namespace}}, func(*v1alpha1.MachineDeployment) {}, true},
		"a deployment outside the configured namespaces is not a group":           {model.Discovery{Namespaces: []string{"x"}}, func(*v1alpha1.MachineDeployment) {}, false},
		"a deployment that matches the configured selector is a group":            {model.Discovery{Selector: selector}, func(d *v1alpha1.MachineDeployment) { d.Labels = map[string]string{"tier": "workers"} }, true},
		"a deployment that does not match the configured selector is not a group": {model.Discovery{Selector: selector}, func(*v1alpha1.MachineDeployment) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 1, 0, 3)
			_, n := p.Node("a-1")
			tc.change(p.Deployment)
			b := newBench(t, w, Options{Discovery: tc.discovery})
			if got := len(b.groups.List()) == 1; got != tc.listed {
				t.Errorf("listed is %v, want %v", got, tc.listed)
			}
			if _, got := b.groups.ForNode(pools.Asked(n)); got != tc.listed {
				t.Errorf("CA-C30 its node belongs to it: %v", got)
			}
			if err := b.groups.IncreaseSize(t.Context(), p.ID(), 1); (err == nil) != tc.listed {
				t.Errorf("growing answers %v", err)
			}
		})
	}
}

func TestWhenABareSetIsAGroup(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 0, 5)
	p.Node("a-1")
	bare := p.Revision(2)
	bare.OwnerReferences, bare.Name, bare.UID = nil, "bare", "bare"
	bare.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: "4"}
	bare.Spec.Replicas = ptr.To[int32](3)
	p.Set = bare
	_, n := p.Node("bare-1")
	p.Machine("bare-2")
	id := "MachineSet/" + pools.Namespace + "/bare"
	t.Run("a bare set is not a group without the feature bare-machinesets", func(t *testing.T) {
		b := newBench(t, w)
		if _, ok := b.groups.ForNode(pools.Asked(n)); ok || len(b.groups.List()) != 1 {
			t.Error("it is a group")
		}
	})
	b := newBench(t, w, Options{Discovery: model.Discovery{BareSets: true}})
	read := func() *v1alpha1.MachineSet {
		s := &v1alpha1.MachineSet{}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(bare), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("the nodes and placeholders of a bare set are shown as instances with the feature bare-machinesets", func(t *testing.T) {
		if g, ok := b.groups.ForNode(pools.Asked(n)); !ok || g.ID != id || g.Max != 4 {
			t.Errorf("the node belongs to %+v", g)
		}
		list, err := b.groups.Instances(id)
		if err != nil || len(list) != 3 || list[1].ID != id+"/machine/bare-2" || list[2].ID != id+"/0/0" {
			t.Errorf("the instances are %v, error %v", list, err)
		}
	})
	t.Run("a bare set grows up to its maximum", func(t *testing.T) {
		wantKind(t, b.groups.IncreaseSize(t.Context(), id, 1), "")
		wantKind(t, b.groups.IncreaseSize(t.Context(), id, 1), model.FailedPrecondition)
		if got := *read().Spec.Replicas; got != 4 {
			t.Errorf("replicas are %d", got)
		}
	})
	t.Run("DeleteNodes writes the removals to spec.removals of the bare set (CA-C65)", func(t *testing.T) {
		wantKind(t, b.groups.DeleteNodes(t.Context(), id, []membership.Node{pools.Asked(n), pools.Fake(id+"/0/0", "unregistered")}), "")
		if s := read(); *s.Spec.Replicas != 2 || len(s.Spec.Removals) != 1 || s.Spec.Removals[0].Name != "bare-1" || *s.Spec.PlaceholderSeries != 1 {
			t.Errorf("the spec is %+v", s.Spec)
		}
	})
	t.Run("a set of a deployment is not a group", func(t *testing.T) {
		if got := b.groups.List(); len(got) != 2 {
			t.Errorf("the groups are %+v", got)
		}
	})
}

func TestTheErrorOfAFailedMachineAfterDeleteNodes(t *testing.T) {
	short := func(d *v1alpha1.MachineDeployment, until time.Duration) {
		d.Status.Backoffs = []v1alpha1.GroupBackoff{{
			Class: string(fault.Quota), Code: string(fault.CodeQuotaExceeded), Message: "no cores left",
			Until: metav1.NewTime(pools.Noon.Add(until)), Step: 2,
		}}
	}
	t.Run("a failed Machine that stays because its group is at the minimum size shows no error until the group's next creation fails (CA-C69)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 1, 5)
		p.Machine("a-1")
		short(p.Deployment, 30*time.Second)
		b := newBench(t, w)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-1"), "create-error")}), "")
		b.expect(p, 1)
		b.catchUp()
		if list, _ := b.groups.Instances(p.ID()); list[0].Error != nil {
			t.Errorf("it is shown again: %+v", list[0].Error)
		}
		d := b.deployment(p)
		short(d, 5*time.Minute)
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
		if list, _ := b.groups.Instances(p.ID()); list[0].Error == nil {
			t.Error("the next failure is not shown")
		}
	})
}
