package nodegroup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestNodeGroupsAreListedInTheSameOrder(t *testing.T) {
	t.Run("the list is sorted by id after every Refresh and on every replica of drover (CA-C22)", func(t *testing.T) {
		w := pools.NewWorld()
		names := rand.Perm(30)
		for _, n := range names {
			p := w.Pool(fmt.Sprintf("pool-%02d", n), 1, 0, 5)
			p.Node(fmt.Sprintf("pool-%02d-1", n))
		}
		ids := func(b *bench) []string {
			wantKind(t, b.groups.Refresh(t.Context()), "")
			var list []string
			for _, g := range b.groups.List() {
				list = append(list, g.ID)
			}
			return list
		}
		first, second := pair(t, w)
		want := ids(first)
		if len(want) != 30 || !slices.IsSorted(want) {
			t.Fatalf("the order is %v", want)
		}
		for range 10 {
			d := w.Deployments[rand.IntN(len(w.Deployments))].DeepCopy()
			d.Spec.Replicas = ptr.To(rand.Int32N(5))
			first.groups.store.inbox.put(membership.Event{Object: d})
			for _, b := range []*bench{first, second} {
				if diff := cmp.Diff(want, ids(b)); diff != "" {
					t.Fatalf("the order has changed (-before +after):\n%s", diff)
				}
			}
		}
	})
}

func TestANodeWithoutAProviderID(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 0, 5)
	_, n := p.Node("a-1")
	n.Spec.ProviderID = ""
	b := newBench(t, w)
	t.Run("the node is shown as Creating with the ID of its Machine's placeholder, and belongs to its group (CA-C42)", func(t *testing.T) {
		list, err := b.groups.Instances(p.ID())
		if err != nil || len(list) != 1 || list[0] != (model.Instance{ID: pools.MachineID(p, "a-1"), State: model.Creating}) {
			t.Errorf("the instances are %v, error %v", list, err)
		}
		if g, ok := b.groups.ForNode(pools.Asked(n)); !ok || g.ID != p.ID() {
			t.Errorf("its group is %v", g)
		}
	})
	t.Run("the node is not deleted as unregistered, however long its provider ID is missing (CA-C42)", func(t *testing.T) {
		for range 30 {
			b.clock.Step(time.Minute)
			b.groups.freshness.reach.AnsweredControl()
			wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-1"), "unregistered")}), model.FailedPrecondition)
		}
		b.expect(p, 1)
	})
	t.Run("the node is shown as Running with its provider ID once that is set, even if the region is missing from the Machine's ID (CA-C42)", func(t *testing.T) {
		n := n.DeepCopy()
		n.Spec.ProviderID = "openstack://RegionOne/" + pools.ServerOf("a-1")
		b.groups.store.inbox.put(membership.Event{Object: n})
		wantKind(t, b.groups.store.renew(false), "")
		if list, _ := b.groups.Instances(p.ID()); list[0] != (model.Instance{ID: n.Spec.ProviderID, State: model.Running}) {
			t.Errorf("the instances are %v", list)
		}
	})
}

func TestAPermanentFailureIsShownAtOnce(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 0, 5)
	m := p.Machine("a-1")
	b := newBench(t, w)
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { b.groups.follow(ctx) })
	defer following.Wait()
	defer stop()
	for _, code := range []fault.Code{
		fault.CodeQuotaExceeded, fault.CodePortQuotaExceeded, fault.CodeVolumeQuotaExceeded, fault.CodeFloatingIPQuotaExceeded,
		fault.CodeIPPoolExhausted, fault.CodeAddressesExhausted, fault.CodeZoneUnavailable, fault.CodeNoValidHost, fault.CodeServerGroupFull,
		fault.CodeFlavorNotFound, fault.CodeImageNotFound, fault.CodeNetworkNotFound, fault.CodeInvalidSpec, fault.CodeUserDataTooLarge,
	} {
		t.Run("a failure with code "+string(code)+" is shown to the autoscaler as soon as the Machine's status has it (CA-C46)", func(t *testing.T) {
			next := m.DeepCopy()
			next.CreationTimestamp = metav1.NewTime(b.clock.Now())
			pools.Failed(code, "it cannot be")(next)
			b.groups.store.inbox.put(membership.Event{Object: next})
			err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
				// In each attempt the clock advances by no more than the time between two snapshots.
				b.clock.Step(rebuildEvery)
				list, err := b.groups.Instances(p.ID())
				return err == nil && list[0].State == model.Creating && list[0].Error != nil && list[0].Error.Code == string(code), err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	if passed := b.clock.Since(pools.Noon); passed > time.Minute {
		t.Errorf("CA-C46 it took %s", passed)
	}
}

func TestAServerThatVanishes(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 1, 1, 5)
	m, n := p.Node("a-1")
	b := newBench(t, w)
	shows := func(t *testing.T, want ...model.Instance) {
		t.Helper()
		got, err := b.groups.Instances(p.ID())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, instances (-want +got):\n%s", err, diff)
		}
		b.expect(p, 1)
	}
	happens := func(e membership.Event) {
		b.groups.store.inbox.put(e)
		wantKind(t, b.groups.store.renew(false), "")
	}
	shows(t, model.Instance{ID: pools.ProviderID("a-1"), State: model.Running})
	t.Run("the server's provider ID is no longer listed after its Node was deleted (CA-C52)", func(t *testing.T) {
		happens(membership.Event{Object: n, Gone: true})
		shows(t, model.Instance{ID: pools.MachineID(p, "a-1"), State: model.Creating})
		if _, ok := b.groups.ForNode(pools.Fake(pools.ProviderID("a-1"), "unregistered")); !ok {
			t.Error("a node of an older list of the autoscaler is not understood")
		}
	})
	going := m.DeepCopy()
	pools.Deleting(going)
	t.Run("the size does not change when the server's Machine is replaced (CA-C52)", func(t *testing.T) {
		happens(membership.Event{Object: going})
		shows(t, model.Instance{ID: pools.MachineID(p, "a-1"), State: model.Deleting}, model.Instance{ID: pools.UnitID(p, 0, 0), State: model.Creating})
	})
	t.Run("only the replacement is listed when the server's Machine is gone (CA-C52)", func(t *testing.T) {
		happens(membership.Event{Object: going, Gone: true})
		shows(t, model.Instance{ID: pools.UnitID(p, 0, 0), State: model.Creating})
	})
	t.Run("a late call of DeleteNodes for the server does not lower the size (CA-C52, CA-C71)", func(t *testing.T) {
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.ProviderID("a-1"), "unregistered"), pools.Fake(pools.MachineID(p, "a-1"), "unregistered")}), "")
		b.expect(p, 1)
	})
}
