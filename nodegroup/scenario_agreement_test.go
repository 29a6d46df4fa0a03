package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestDeleteNodesOfReplicasWithoutAMachine(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 5, 1, 9)
	p.Node("a-1")
	b := newBench(t, w)
	remove := func(ids ...string) error {
		var nodes []membership.Node
		for _, id := range ids {
			nodes = append(nodes, pools.Fake(id, "unregistered"))
		}
		return b.groups.DeleteNodes(t.Context(), p.ID(), nodes)
	}
	t.Run("DeleteNodes lowers the size by one, in one write that renames the other placeholders (CA-C72)", func(t *testing.T) {
		wantKind(t, remove(pools.UnitID(p, 0, 2)), "")
		b.expect(p, 4)
		list, _ := b.groups.Instances(p.ID())
		want := []model.Instance{{ID: pools.ProviderID("a-1"), State: model.Running}, {ID: pools.UnitID(p, 1, 0), State: model.Creating}, {ID: pools.UnitID(p, 1, 1), State: model.Creating}, {ID: pools.UnitID(p, 1, 2), State: model.Creating}}
		if diff := cmp.Diff(want, list); diff != "" || b.patches.Load() != 1 {
			t.Errorf("%d writes, instances (-want +got):\n%s", b.patches.Load(), diff)
		}
	})
	t.Run("placeholders with names of the previous series still belong to the group, and removing them changes nothing (CA-C72)", func(t *testing.T) {
		for n := range int32(5) {
			if g, ok := b.groups.ForNode(pools.Fake(pools.UnitID(p, 0, n), "unregistered")); !ok || g.ID != p.ID() {
				t.Errorf("unit %d belongs to %v", n, g)
			}
			wantKind(t, remove(pools.UnitID(p, 0, n)), "")
		}
		b.expect(p, 4)
	})
	t.Run("parallel calls for the same replica without a Machine lower the size only once (CA-C72)", func(t *testing.T) {
		var calls sync.WaitGroup
		for range 5 {
			calls.Go(func() { wantKind(t, remove(pools.UnitID(p, 1, 1)), "") })
		}
		calls.Wait()
		b.expect(p, 3)
	})
	t.Run("one call removes all remaining replicas without a Machine, down to the minimum (CA-C72)", func(t *testing.T) {
		wantKind(t, remove(pools.UnitID(p, 2, 0), pools.UnitID(p, 2, 1)), "")
		b.expect(p, 1)
	})
}

// agreement returns a text that describes how target size, instances and membership contradict each other. The text is empty when
// they agree. The nodes in gone must have no instance, and must belong to no group unless they are placeholders.
func agreement(b *bench, p *pools.Pool, size int32, gone ...membership.Node) string {
	var wrong []string
	if got, err := b.groups.TargetSize(p.ID()); err != nil || got != size {
		wrong = append(wrong, fmt.Sprintf("the size is %d (error %v), want %d", got, err, size))
	}
	list, err := b.groups.Instances(p.ID())
	units := int32(0)
	for _, i := range list {
		if i.State != model.Deleting {
			units++
		}
		if i.State != model.Deleting && slices.ContainsFunc(gone, func(n membership.Node) bool { return n.ProviderID == i.ID }) {
			wrong = append(wrong, fmt.Sprintf("%s is %s", i.ID, i.State))
		}
	}
	if err != nil || units != size {
		wrong = append(wrong, fmt.Sprintf("%d units count (error %v), want %d", units, err, size))
	}
	for _, n := range gone {
		if _, ok := b.groups.ForNode(n); ok && !n.MadeUp() {
			wrong = append(wrong, fmt.Sprintf("node %s has a group", n))
		}
	}
	return strings.Join(wrong, "; ")
}

func TestTheAnswersAboutAGroupAgreeAfterARemoval(t *testing.T) {
	for name, removed := range map[string]func(p *pools.Pool, real membership.Node) membership.Node{
		"the answers of both drover processes agree after the removal of a node (CA-C76, MCM-101, CA-C37)": func(_ *pools.Pool, real membership.Node) membership.Node { return real },
		"the answers of both drover processes agree after the removal of a failed Machine (CA-C76, MCM-101, CA-C37)": func(p *pools.Pool, _ membership.Node) membership.Node {
			return pools.Fake(pools.MachineID(p, "a-2"), "create-error")
		},
		"the answers of both drover processes agree after the removal of a Machine that has not joined (CA-C76, MCM-101, CA-C37)": func(p *pools.Pool, _ membership.Node) membership.Node {
			return pools.Fake(pools.MachineID(p, "a-3"), "unregistered")
		},
		"the answers of both drover processes agree after the removal of a replica without a Machine (CA-C76, MCM-101, CA-C37)": func(p *pools.Pool, _ membership.Node) membership.Node {
			return pools.Fake(pools.UnitID(p, 0, 0), "unregistered")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 4, 0, 9)
			_, n := p.Node("a-1")
			p.Machine("a-2", pools.Failed(fault.CodeNoValidHost, "no host"))
			p.Machine("a-3", pools.WithServer)
			first, second := pair(t, w)
			first.freeze()
			node := removed(p, pools.Asked(n))
			wantKind(t, first.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{node}), "")
			wantKind(t, second.groups.Refresh(t.Context()), "")
			for when, b := range map[string]*bench{"size, instances and membership agree on the drover process that received DeleteNodes": first, "size, instances and membership agree on the other drover process": second} {
				if wrong := agreement(b, p, 3, node); wrong != "" {
					t.Errorf("%s: %s", when, wrong)
				}
			}
			first.frozen = false
			first.catchUp()
			wantKind(t, first.groups.Refresh(t.Context()), "")
			if wrong := agreement(first, p, 3, node); wrong != "" {
				t.Errorf("after a Refresh: %s", wrong)
			}
		})
	}
}

func TestDeleteNodesDoesNotWaitForTheDeletion(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 3, 0, 9)
	_, n := p.Node("a-1")
	b := newBench(t, w)
	// The API server answers two writes with a conflict, and loses the answer to the third write.
	var ours int32
	b.beforePatch = func(call int32) error {
		switch call {
		case 1, 2:
			d := b.deployment(p)
			d.Labels = map[string]string{"turn": fmt.Sprint(call)}
			return b.client.Update(t.Context(), d)
		case 3:
			ours = call
			return errLost
		}
		return nil
	}
	began := b.clock.Now()
	ctx, stop := context.WithCancel(t.Context())
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for ctx.Err() == nil {
			if b.clock.HasWaiters() {
				b.clock.Step(settleEvery)
			}
		}
	})
	err := b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)})
	stop()
	ticking.Wait()
	t.Run("DeleteNodes returns within a second despite conflicts and a lost answer (CA-C78)", func(t *testing.T) {
		wantKind(t, err, "")
		if took := b.clock.Since(began); took >= time.Second || ours != 3 {
			t.Errorf("it took %s", took)
		}
		b.expect(p, 2, "a-1")
	})
	t.Run("DeleteNodes returns before the Machine is deleted (CA-C78)", func(t *testing.T) {
		m := &v1alpha1.Machine{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: pools.Namespace, Name: "a-1"}, m); err != nil || m.DeletionTimestamp != nil {
			t.Errorf("the Machine is %v, error %v", m.DeletionTimestamp, err)
		}
	})
}

func TestDecreaseTargetSizeAtTheMinimumAndInAFrozenGroup(t *testing.T) {
	start := func(t *testing.T, change func(p *pools.Pool)) (*bench, *pools.Pool) {
		w := pools.NewWorld()
		p := w.Pool("a", 4, 3, 9)
		p.Node("a-1")
		p.Machine("a-2")
		change(p)
		return newBench(t, w), p
	}
	t.Run("a decrease below the minimum lowers the size to the minimum and records an Event (CA-C87)", func(t *testing.T) {
		b, p := start(t, func(*pools.Pool) {})
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -4), "")
		b.expect(p, 3)
		if said := drain(b.recorder); !strings.Contains(said, "DecreaseClamped The autoscaler asked to take back 4 requests for nodes, but only 1 are open above the minimum of 3") {
			t.Errorf("the Events are %q", said)
		}
		if wrong := agreement(b, p, 3); wrong != "" {
			t.Error(wrong)
		}
	})
	t.Run("a decrease does not remove replicas without a Machine from a frozen group, because the freeze delays their Machines (CA-C87)", func(t *testing.T) {
		b, p := start(t, func(p *pools.Pool) {
			p.Deployment.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue}}
		})
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -2), "")
		b.expect(p, 4)
	})
	t.Run("a decrease does not change a size that is already below the minimum (CA-C87)", func(t *testing.T) {
		b, p := start(t, func(p *pools.Pool) { p.Deployment.Spec.Replicas = ptr.To[int32](2) })
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -2), "")
		b.expect(p, 2)
	})
}

func TestReadsDoNotWaitForChanges(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 3, 0, 10)
	p.Deployment.Status.NodeTemplate = pools.NodeTemplate()
	_, n := p.Node("a-1")
	b := newBench(t, w, Options{RestartGuard: time.Minute, GPULabel: "gpu"})
	b.groups.prices.current.Store(&model.Prices{CPU: 1, MemoryGiB: 1})
	slow := &slowReader{Reader: b.groups.sizes.live, begun: make(chan struct{}), goOn: make(chan struct{})}
	b.groups.sizes.live = slow
	writing, goOn := make(chan struct{}), make(chan struct{})
	b.beforePatch = func(int32) error {
		close(writing)
		<-goOn
		return nil
	}
	var busy sync.WaitGroup
	busy.Go(func() { wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "") })
	<-writing
	busy.Go(func() { b.groups.Connected(t.Context()) })
	<-slow.begun
	gets, lists := b.gets.Load(), b.lists.Load()
	read := make(chan struct{})
	go func() {
		defer close(read)
		g := b.groups
		g.List()
		g.ForNode(pools.Asked(n))
		g.ForNode(membership.Node{Name: "x", ProviderID: "aws:///i"})
		_, _ = g.TargetSize(p.ID())
		_, _ = g.Instances(p.ID())
		_, _ = g.TemplateNode(p.ID())
		g.Settings(p.ID(), flags)
		g.GPUTypes()
		g.Started()
		_, _ = g.NodePrice(pools.Asked(n), pools.Noon, pools.Noon.Add(time.Hour))
		_, _ = g.PodPrice(&corev1.Pod{}, pools.Noon, pools.Noon.Add(time.Hour))
		b.clock.Step(listingAge)
		g.List()
	}()
	t.Run("the autoscaler's read calls are answered from memory while drover waits for a write and a read at the API server (CA-C110)", func(t *testing.T) {
		select {
		case <-read:
		case <-time.After(10 * time.Second):
			t.Error("a read waits")
		}
		if b.gets.Load() != gets || b.lists.Load() != lists {
			t.Error("reads asked the API server")
		}
	})
	close(goOn)
	close(slow.goOn)
	busy.Wait()
	<-read
}
