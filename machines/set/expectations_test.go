package set

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestASetRemembersItsOwnWritesUntilTheCacheShowsThem(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	set := testSet(2)
	a, b := machine("a", 1), machine("b", 1)

	t.Run("counts created Machines before the cache shows them (MC-34, MCM-25)", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.expect(set, "a", "")
		if d := decide(observedAtStart(set, nil, x)); d.create != 1 {
			t.Errorf("decide() creates %d, want 1", d.create)
		}
		if _, wait := x.prune(set, []*v1alpha1.Machine{a}); wait != 0 {
			t.Errorf("the next check is in %s, want none", wait)
		}
		if d := decide(observedAtStart(set, []*v1alpha1.Machine{a}, x)); d.create != 1 {
			t.Errorf("decide() creates %d, want 1", d.create)
		}
	})
	t.Run("counts a deletion before the cache shows it, so that no Machine is deleted again or in addition (MC-34)", func(t *testing.T) {
		x := newExpectations(nil, clock)
		small := testSet(1)
		x.expect(small, a.Name, a.UID)
		if d := decide(observedAtStart(small, []*v1alpha1.Machine{a, b}, x)); len(d.remove) != 0 || d.create != 0 {
			t.Errorf("decide() removes %d and creates %d, want 0 and 0", len(d.remove), d.create)
		}
	})
	t.Run("no longer counts a created Machine that is deleted before the cache has shown it (MC-34)", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.expect(set, "a", "")
		x.gone(types.NamespacedName{Namespace: "ns", Name: "set"}, a)
		if d := decide(observedAtStart(set, nil, x)); d.create != 2 {
			t.Errorf("decide() creates %d, want 2", d.create)
		}
	})
	t.Run("lists a created Machine for a look-up in the API when the cache does not show it within 10 s", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.expect(set, "a", "")
		clock.SetTime(start.Add(time.Second))
		if late, wait := x.prune(set, nil); len(late) != 0 || wait != overdue-time.Second {
			t.Errorf("overdue %v after a second, next check in %s", late, wait)
		}
		clock.SetTime(start.Add(overdue))
		if late, _ := x.prune(set, nil); len(late) != 1 || late["a"].deleted != "" {
			t.Errorf("overdue are %v", late)
		}
	})
	t.Run("does not count the Machines that a deleted set of the same name created", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.expect(set, "a", "")
		later := testSet(2)
		later.UID = "later"
		if n := x.unconfirmed(later).created; n != 0 {
			t.Errorf("%d Machines are expected, want 0 in the later set", n)
		}
	})
}
