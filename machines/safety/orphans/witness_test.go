package orphans

import (
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

func TestWitness(t *testing.T) {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	leaving := machine.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, tc := range map[string]struct {
		see  func(w *witness)
		want verdict.Sighting
	}{
		"a Machine that lives is not leaving (MCM-82)":        {func(w *witness) { w.OnAdd(machine, true) }, verdict.Sighting{Exists: true}},
		"one that is being deleted is (MCM-82)":               {func(w *witness) { w.OnUpdate(machine, leaving) }, verdict.Sighting{Exists: true, Leaving: true}},
		"so is one of whose end the API server told (MCM-82)": {func(w *witness) { w.OnAdd(machine, true); w.OnDelete(machine) }, verdict.Sighting{Leaving: true}},
		"one that is not there any more after an interrupted watch is not (MCM-82)": {func(w *witness) {
			w.OnAdd(machine, true)
			w.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: machine})
		}, verdict.Sighting{}},
		"unless it was being deleted before (MCM-82)": {func(w *witness) {
			w.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: leaving})
		}, verdict.Sighting{Leaving: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness(clocktesting.NewFakePassiveClock(time.Now()))
			tc.see(w)
			if got, seen := w.sightings()["u"]; !seen || got != tc.want {
				t.Errorf("seen: %v, %+v; want %+v", seen, got, tc.want)
			}
		})
	}
}

func TestTheWitnessForgets(t *testing.T) {
	t.Run("Machines that have been gone for an hour and of which nothing is left (F-12)", func(t *testing.T) {
		now := time.Now()
		w := newWitness(clocktesting.NewFakePassiveClock(now))
		for _, uid := range []types.UID{"lives", "left", "gone"} {
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: uid}}
			w.OnAdd(m, true)
			if uid != "lives" {
				w.OnDelete(m)
			}
		}
		s := &verdict.Snapshot{Now: now.Add(remembered), Projects: []cloud.Project{{Resources: []cloud.Resource{{Machine: "left"}}}}}
		if w.forget(s); len(w.sightings()) != 3 {
			t.Errorf("within the hour: %v", w.sightings())
		}
		s.Now = now.Add(remembered + time.Second)
		w.forget(s)
		if _, gone := w.sightings()["gone"]; gone || len(w.sightings()) != 2 {
			t.Errorf("after it: %v", w.sightings())
		}
	})
}
