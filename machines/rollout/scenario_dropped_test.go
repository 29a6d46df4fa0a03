package rollout

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestFieldsThatAClientDroppedFromADeploymentOrSetAreRestored(t *testing.T) {
	t.Run("restores a removal that a client dropped from the deployment, and passes the removal to the set (F-5)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[2])
		s := w.snapshot()
		s.Named, s.Deployment.Spec.Removals = s.Deployment.Spec.Removals, nil
		p, err := Compute(s)
		if err != nil || len(p.Changes) != 1 || p.Changes[0].Replicas != 3 || len(p.Changes[0].Removals) != 1 || !p.WriteRemovals || len(p.Removals) != 1 {
			t.Errorf("Compute() = %+v, %v", p, err)
		}
	})
	t.Run("restores a removal in the deployment when only its set still has it, without lowering the size a second time (F-5)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[2])
		w.plan()
		w.d.Spec.Removals = nil
		p, err := Compute(w.snapshot())
		if err != nil || len(p.Changes) != 0 || !p.WriteRemovals || len(p.Removals) != 1 || p.Replicas != 3 {
			t.Errorf("Compute() = %+v, %v", p, err)
		}
	})
	t.Run("restores a removal until its Machine has been gone for 15 minutes (F-5)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.remove(w.machines[0])
		w.settle(&strings.Builder{})
		w.d.Spec.Removals = nil
		if p, _ := w.plan(); !p.WriteRemovals || len(w.d.Spec.Removals) != 1 {
			t.Errorf("Compute() = %+v", p)
		}
		w.now = w.now.Add(removalAge)
		w.d.Spec.Removals = nil
		w.settle(&strings.Builder{})
		if len(w.d.Spec.Removals) != 0 || len(w.sets[0].Spec.Removals) != 0 {
			t.Errorf("removals left: %v and %v", w.d.Spec.Removals, w.sets[0].Spec.Removals)
		}
	})
	t.Run("restores an entry of a set's spec.rolloutRemovals while its Machine exists (F-5)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		gone := v1alpha1.Removal{Name: "gone", UID: "gone"}
		there := v1alpha1.Removal{Name: w.machines[0].Name, UID: w.machines[0].UID}
		s := w.snapshot()
		s.Sets[0].Named = []v1alpha1.Removal{gone, there}
		p, err := Compute(s)
		if err != nil || len(p.Changes) != 1 || len(p.Changes[0].RolloutRemovals) != 1 || p.Changes[0].RolloutRemovals[0].UID != there.UID {
			t.Errorf("Compute() = %+v, %v", p, err)
		}
	})
	t.Run("restores spec.placeholderSeries from the status (F-5)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.d.Spec.PlaceholderSeries = new(int32(4))
		p, _ := w.plan()
		if p.PlaceholderSeries != nil || p.Status.LastPlaceholderSeries == nil || *p.Status.LastPlaceholderSeries != 4 {
			t.Errorf("Compute() = %+v", p)
		}
		w.d.Status = p.Status
		w.d.Spec.PlaceholderSeries = nil
		if p, _ = w.plan(); p.PlaceholderSeries == nil || *p.PlaceholderSeries != 4 {
			t.Errorf("Compute() = %+v", p)
		}
	})
}
