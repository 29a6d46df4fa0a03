package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhatAPlanDoesWithTheRemovalsOfADeployment(t *testing.T) {
	t.Run("passes removals to a set in the same write that lowers the set's size (CA-C65)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[2])
		w.remove(w.machines[0])
		p, err := Compute(w.snapshot())
		if err != nil || len(p.Changes) != 1 || p.Changes[0].Replicas != 2 || len(p.Changes[0].Removals) != 2 {
			t.Errorf("changes %+v, %v", p.Changes, err)
		}
	})
	t.Run("changes no set when the removal has already been passed to a set", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[2])
		w.plan()
		if p, wrote := w.plan(); wrote {
			t.Errorf("changes %+v", p.Changes)
		}
	})
	t.Run("keeps a removal for 15 minutes after its Machine is gone", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.remove(w.machines[0])
		w.settle(&strings.Builder{})
		p, _ := w.plan()
		if len(w.d.Spec.Removals) != 1 || p.RequeueAfter != removalAge {
			t.Errorf("%d entries, next check in %s", len(w.d.Spec.Removals), p.RequeueAfter)
		}
		w.now = w.now.Add(removalAge)
		w.settle(&strings.Builder{})
		if len(w.d.Spec.Removals) != 0 || len(w.sets[0].Spec.Removals) != 0 {
			t.Errorf("entries left: %v and %v", w.d.Spec.Removals, w.sets[0].Spec.Removals)
		}
	})
	t.Run("keeps a removal while its Machine exists", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.remove(w.machines[0])
		w.now = w.now.Add(time.Hour)
		if p, err := Compute(w.snapshot()); err != nil || p.WriteRemovals {
			t.Errorf("PruneRemovals() = %v, %v", p.Removals, err)
		}
	})
}

// whileOneDrains returns a group of three Machines with the strategy OnDelete. A Machine of an old template, dying, was deleted by hand and
// still drains. The current set has created its replacement.
func whileOneDrains(replacement string) (w *simulation, dying *v1alpha1.Machine) {
	w = settled(shape{3, "1", "0"})
	w.d.Spec.Strategy.Type = v1alpha1.OnDelete
	w.template("B")
	w.broken["B"] = replacement == "on its way"
	dying = w.machines[0]
	w.stuck[dying.Name] = true
	w.delete(dying)
	w.settle(&strings.Builder{})
	return w, dying
}

func TestRemovalsWhileAMachineDrains(t *testing.T) {
	for _, tt := range []struct {
		name, replacement string
		// lowered is true when a second removal names the replacement of the draining Machine. Only this second removal lowers the size.
		lowered bool
		sizes   string
	}{
		{"keeps every set's size and the replacement when a removal names only the draining Machine, which no longer counts in the size (CA-C68, CA-C88)", "there", false, "[A=2 B=1]"},
		{"deletes the draining Machine's replacement when a second removal names the replacement (CA-C68, CA-C88)", "on its way", true, "[A=2 B=0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, dying := whileOneDrains(tt.replacement)
			replacement := w.machines[len(w.machines)-1]
			w.remove(dying)
			w.scale(3)
			if tt.lowered {
				w.remove(replacement)
			}
			w.settle(&strings.Builder{})
			if w.sizes() != tt.sizes || len(w.deleted) > 1 || w.deleted[replacement.Name] != tt.lowered {
				t.Errorf("sizes %s, want %s; sets have deleted %v", w.sizes(), tt.sizes, w.deleted)
			}
		})
	}
	t.Run("deletes only the Machine that a removal names when the size is lowered by one (CA-C88)", func(t *testing.T) {
		w, _ := whileOneDrains("there")
		w.scale(2)
		w.plan()
		goes, stays := w.machines[1], w.machines[2]
		w.remove(goes)
		w.scale(2)
		w.settle(&strings.Builder{})
		if w.sizes() != "[A=1 B=1]" || !w.deleted[goes.Name] || w.deleted[stays.Name] {
			t.Errorf("sizes %s; sets have deleted %v, and %s should remain", w.sizes(), w.deleted, stays.Name)
		}
	})
	t.Run("creates no replacement for a draining Machine that a removal names (CA-C68)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.delete(w.machines[0])
		w.remove(w.machines[0])
		made := w.made
		w.settle(&strings.Builder{})
		if w.sizes() != "[A=2]" || w.made != made {
			t.Errorf("sizes %s, %d created", w.sizes(), w.made-made)
		}
	})
}
