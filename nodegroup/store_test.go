package nodegroup

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestTheAnswerToAWriteReplacesOnlyAnOlderObjectInTheSnapshot(t *testing.T) {
	// begin returns a group, and the object in the API server's answer to a write. The answer arrives after the watch has
	// delivered a later event.
	begin := func(t *testing.T) (*bench, *pools.Pool, *v1alpha1.MachineDeployment) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 0, 5)
		p.Node("a-1")
		b := newBench(t, w)
		answer := b.deployment(p)
		answer.ResourceVersion = "1001"
		if err := b.client.Delete(t.Context(), b.deployment(p)); err != nil {
			t.Fatal(err)
		}
		return b, p, answer
	}
	t.Run("the answer to a write does not bring back an object that was deleted meanwhile, and Refresh succeeds (CA-C115)", func(t *testing.T) {
		b, p, answer := begin(t)
		b.catchUp()
		b.groups.store.adopt(answer)
		b.clock.Step(staleAfter)
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), "")
		if list := b.groups.List(); len(list) != 0 {
			t.Errorf("%s is still listed: %+v", p.ID(), list)
		}
	})
	t.Run("the answer to a write does not replace a newer object of the same name (CA-C115)", func(t *testing.T) {
		b, p, answer := begin(t)
		b.catchUp()
		another := answer.DeepCopy()
		another.UID, another.ResourceVersion = types.UID("another"), "1002"
		b.groups.store.inbox.put(membership.Event{Object: another})
		wantKind(t, b.groups.store.renew(true), "")
		b.groups.store.adopt(answer)
		if got := b.groups.store.newest.Groups[p.ID()].Owner.GetUID(); got != another.UID {
			t.Errorf("the group is that of %s", got)
		}
	})
	t.Run("Refresh succeeds when an interrupted watch misses the written object and delivers only a later one of the same name (CA-C13)", func(t *testing.T) {
		b, _, answer := begin(t)
		b.groups.store.adopt(answer)
		another := answer.DeepCopy()
		another.UID, another.ResourceVersion = types.UID("another"), "1002"
		b.groups.store.inbox.put(membership.Event{Object: another})
		wantKind(t, b.groups.store.renew(false), "")
		b.clock.Step(staleAfter)
		b.probeOnce(t.Context())
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
}

func TestAGroupThatIsMadeAgainWhileTheWatchIsInterrupted(t *testing.T) {
	// begin returns a group whose deployment was deleted and made again. The watch does not show that yet.
	begin := func(t *testing.T) (*bench, *pools.Pool) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 0, 5)
		b := newBench(t, w)
		b.freeze()
		again := b.deployment(p)
		last := versionOf(again)
		if err := b.client.Delete(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		again.UID, again.ResourceVersion = "again", ""
		if err := b.client.Create(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		for versionOf(again) <= last { // The fake client counts the versions of the new object from 1. An API server continues.
			body := fmt.Appendf(nil, `{"metadata":{"labels":{"version":"%d"}}}`, versionOf(again))
			if err := b.client.Patch(t.Context(), again, client.RawPatch(types.MergePatchType, body)); err != nil {
				t.Fatal(err)
			}
		}
		return b, p
	}
	t.Run("is not changed before the watch has shown the new object", func(t *testing.T) {
		b, p := begin(t)
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.Unavailable)
		b.expect(p, 1)
		b.frozen = false
		b.watch()
		wantKind(t, b.groups.Refresh(t.Context()), "")
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		b.expect(p, 2)
	})
	t.Run("is not listed when the new object is deleted, too, before the watch has shown it", func(t *testing.T) {
		b, p := begin(t)
		_ = b.groups.IncreaseSize(t.Context(), p.ID(), 1)
		if err := b.client.Delete(t.Context(), b.deployment(p)); err != nil {
			t.Fatal(err)
		}
		b.frozen = false
		b.watch()
		wantKind(t, b.groups.Refresh(t.Context()), "")
		if list := b.groups.List(); len(list) != 0 {
			t.Errorf("%s is still listed: %+v", p.ID(), list)
		}
	})
}
