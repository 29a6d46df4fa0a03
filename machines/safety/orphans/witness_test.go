package orphans

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestDeletionsOfMachinesAreRecordedForTheOrphanCheck(t *testing.T) {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	leaving := machine.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, tc := range map[string]struct {
		see  func(w *witness)
		want verdict.Sighting
	}{
		"no deletion is recorded for an existing Machine that is not being deleted (MCM-82)":       {func(w *witness) { w.OnAdd(machine, true) }, verdict.Sighting{Exists: true}},
		"a deletion is recorded for a Machine that exists and is being deleted (MCM-82)":           {func(w *witness) { w.OnUpdate(machine, leaving) }, verdict.Sighting{Exists: true, Leaving: true}},
		"a deletion is recorded for a Machine whose deletion the API server has reported (MCM-82)": {func(w *witness) { w.OnAdd(machine, true); w.OnDelete(machine) }, verdict.Sighting{Leaving: true}},
		"no deletion is recorded for a Machine that is only missing after an interrupted watch (MCM-82)": {func(w *witness) {
			w.OnAdd(machine, true)
			w.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: machine})
		}, verdict.Sighting{}},
		"a deletion is recorded for a Machine that was being deleted before a watch broke, and is missing afterwards (MCM-82)": {func(w *witness) {
			w.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: leaving})
		}, verdict.Sighting{Leaving: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness(clocktesting.NewFakePassiveClock(time.Now()))
			tc.see(w)
			if got, seen := w.sightings()["u"]; !seen || got != tc.want {
				t.Errorf("seen: %v, %+v; want %+v", seen, got, tc.want)
			}
			if w.exists("u") != tc.want.Exists || w.exists("another") {
				t.Errorf("exists: %v, and one that was never seen: %v", w.exists("u"), w.exists("another"))
			}
		})
	}
}

// ended reports to the witness that n Machines were created and deleted again. It moves the clock forward by one
// second before each of them. Their UIDs begin with prefix.
func (w *witness) ended(clock *clocktesting.FakePassiveClock, prefix string, n int) {
	for i := range n {
		clock.SetTime(clock.Now().Add(time.Second))
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: types.UID(prefix + strconv.Itoa(i))}}
		w.OnAdd(m, true)
		w.OnDelete(m)
	}
}

func TestTheOrphanCheckForgetsDeletedMachinesAfterThirtyDays(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w := newWitness(clock)
	w.OnAdd(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "lives"}}, true)
	w.ended(clock, "old-", 3)
	w.keep([]cloud.Project{{Resources: []cloud.Resource{{Machine: "old-1"}}}})
	inOrder(t, "remembers a Machine that has been gone for less than thirty days (F-12)", func(t *testing.T) {
		clock.SetTime(clock.Now().Add(remembered - time.Minute))
		if w.ended(clock, "new-", 1); len(w.sightings()) != 5 {
			t.Errorf("remembers %v", w.sightings())
		}
	})
	inOrder(t, "forgets a Machine thirty days after its deletion unless it has resources left, also in a process that is not the leader (F-12)", func(t *testing.T) {
		clock.SetTime(clock.Now().Add(2 * time.Hour))
		w.ended(clock, "newer-", 1)
		seen := w.sightings()
		_, lives := seen["lives"]
		if _, left := seen["old-1"]; len(seen) != 4 || !left || !lives {
			t.Errorf("remembers %v", seen)
		}
	})
	inOrder(t, "forgets the Machines that have been gone longest when more are gone than it may remember (F-12)", func(t *testing.T) {
		const many = mostRemembered + mostRemembered/4
		w.ended(clock, "many-", many)
		seen := w.sightings()
		_, left := seen["old-1"]
		_, last := seen["many-"+types.UID(strconv.Itoa(many-1))]
		if len(seen) > mostRemembered+2 || len(seen) < mostRemembered/2 || !left || !last {
			t.Errorf("remembers %d", len(seen))
		}
	})
}

func TestHowManyMachinesTheOrphanCheckCountsAsGone(t *testing.T) {
	t.Run("a Machine that seemed gone is not counted any more when the watch shows it again after an interruption (F-12)", func(t *testing.T) {
		clock := clocktesting.NewFakePassiveClock(time.Now())
		w := newWitness(clock)
		for range 3 {
			w.ended(clock, "u", 1)
		}
		if w.OnAdd(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u0"}}, false); w.gone != 0 {
			t.Errorf("%d are gone", w.gone)
		}
	})
}
