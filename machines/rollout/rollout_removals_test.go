package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func nothing() *strings.Builder { return &strings.Builder{} }

// midRoll is a rollout from A to B that stands still because the servers that it removed drain for long.
func midRoll(s shape) *world {
	w := settled(s)
	w.slow = true
	w.template("B")
	w.settle(nothing())
	return w
}

// servers counts living Machines, and Machines that leave and still have a server, of a template.
func (w *world) servers(template string) (living, leaving int) {
	for _, m := range w.machines {
		switch {
		case m.Spec.Versions.Kubelet != template:
		case m.DeletionTimestamp.IsZero():
			living++
		default:
			leaving++
		}
	}
	return living, leaving
}

func (w *world) expect(t *testing.T, livingA, leavingA, livingB, leavingB int) {
	t.Helper()
	a, aLeaving := w.servers("A")
	b, bLeaving := w.servers("B")
	if got, want := [4]int{a, aLeaving, b, bLeaving}, [4]int{livingA, leavingA, livingB, leavingB}; got != want {
		t.Errorf("living and leaving A, living and leaving B are %v, want %v; sizes %s", got, want, w.sizes())
	}
}

func TestALargerSizeInARollout(t *testing.T) {
	t.Run("MC-17 MCM-7 does not wait for drains of a smaller size: 10, 5, 10 makes five servers at once (F-33)", func(t *testing.T) {
		w := settled(shape{10, "1", "0"})
		w.broken["B"], w.slow = true, true
		w.template("B")
		w.settle(nothing())
		w.scale(5)
		w.settle(nothing())
		w.expect(t, 5, 5, 1, 0)
		w.scale(10)
		made := w.made
		w.plan()
		w.act(w.sets[1])
		if w.made-made != 5 {
			t.Errorf("one plan makes %d servers, want 5", w.made-made)
		}
	})
	t.Run("MC-17 does not wait for a Machine that a person deleted (F-33)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.broken["B"], w.slow = true, true
		w.template("B")
		w.settle(nothing())
		w.delete(w.first("A"))
		w.scale(6)
		w.settle(nothing())
		w.expect(t, 4, 1, 3, 0)
	})
	t.Run("MC-17 does not wait for a Machine that a removal names (F-33)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.broken["B"], w.slow = true, true
		w.template("B")
		w.settle(nothing())
		w.remove(w.first("A"))
		w.scale(4)
		w.settle(nothing())
		w.expect(t, 3, 1, 2, 0)
	})
	t.Run("MC-17 MCM-7 waits for what the rollout removed, with surge 0 too (F-33)", func(t *testing.T) {
		w := midRoll(shape{4, "0", "2"})
		w.expect(t, 2, 2, 0, 0)
		w.scale(5)
		w.settle(nothing())
		w.expect(t, 2, 2, 1, 0)
	})
}

func TestTheRecordOfWhatARolloutRemoves(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a pause":               func(w *world) { w.d.Spec.Paused = true },
		"the former template":   func(w *world) { w.template("A") },
		"a third template":      func(w *world) { w.template("C") },
		"the strategy OnDelete": func(w *world) { w.d.Spec.Strategy.Type = v1alpha1.OnDelete },
		"the strategy Recreate": func(w *world) { w.d.Spec.Strategy.Type = v1alpha1.Recreate },
	} {
		t.Run("MC-17 holds the ceiling after "+name+" (F-33)", func(t *testing.T) {
			w := midRoll(shape{4, "0", "2"})
			change(w)
			w.settle(nothing())
			if len(w.machines) != 4 {
				t.Errorf("%d servers, want 4; sizes %s", len(w.machines), w.sizes())
			}
		})
	}
	t.Run("MC-17 is written with the size, and its entries of Machines that are gone leave with the next write (F-33)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.template("B")
		var written []int
		w.onPlan = func(_ Snapshot, p Plan) {
			for _, c := range p.Changes {
				if c.Set == w.sets[0] {
					written = append(written, len(c.RolloutRemovals))
				}
			}
		}
		w.settle(nothing())
		if len(written) != 2 || written[0] != 1 || written[1] != 1 {
			t.Errorf("the old set was written with %v entries, want two writes with one each", written)
		}
	})
	t.Run("MC-17 of an older version: what is leaving counts as removed by the rollout (F-33)", func(t *testing.T) {
		w := midRoll(shape{4, "0", "2"})
		for _, set := range w.sets {
			delete(set.Annotations, v1alpha1.AnnotationRolloutRecord)
			set.Spec.RolloutRemovals = nil
		}
		w.settle(nothing())
		w.expect(t, 2, 2, 0, 0)
		w.delete(w.first("A"))
		w.settle(nothing())
		w.expect(t, 2, 3, 0, 0)
		if n := len(w.sets[0].Spec.RolloutRemovals); n != 2 {
			t.Errorf("%d entries, want the 2 that were leaving at first", n)
		}
	})
}

func TestARolloutRemovesOnlyMachinesThatStay(t *testing.T) {
	for _, tt := range []struct {
		name string
		// notReady, young (Ready, not yet available) and marked are places of the four Machines of an old set of 3; stays are
		// available Machines that must not go.
		notReady, young, marked, stays []int
	}{
		{name: "m0 goes in any case and m2 is young: m1 and m3 stay available",
			notReady: []int{0}, young: []int{2}, stays: []int{1, 3}},
		{name: "m0 is marked and goes in any case: m2 goes, not m1, which is marked and available",
			notReady: []int{0, 2}, marked: []int{0, 1}, stays: []int{1, 3}},
	} {
		t.Run("MC-16 MCM-8 "+tt.name+" (F-31)", func(t *testing.T) {
			w := settled(shape{4, "1", "0"})
			all := slices.Clone(w.machines)
			w.d.Spec.MinReadySeconds = new(int32(30))
			w.now = w.now.Add(time.Minute)
			for _, i := range tt.notReady {
				w.ready(all[i], false)
			}
			for _, i := range tt.young {
				w.ready(all[i], true)
			}
			for _, i := range tt.marked {
				metav1.SetMetaDataAnnotation(&all[i].ObjectMeta, v1alpha1.AnnotationDeleteMachine, "yes")
			}
			w.sets[0].Spec.Replicas, w.sets[0].Spec.MinReadySeconds = new(int32(3)), 30
			w.sets[0].Annotations[v1alpha1.AnnotationDesiredReplicas] = "2"
			w.scale(2)
			w.broken["B"] = true
			w.template("B")
			w.settle(nothing())
			for _, i := range tt.stays {
				if w.deleted[all[i].Name] {
					t.Errorf("deleted are %v, %s was available and had to stay", w.deleted, all[i].Name)
				}
			}
		})
	}
}

func TestRecreateBeforeTheCacheShowsTheOldMachines(t *testing.T) {
	t.Run("MCM-19 waits until the old set says that it has none (F-32)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.d.Spec.Strategy.Type = v1alpha1.Recreate
		w.template("B")
		shown := w.machines
		w.machines = nil
		w.plan()
		if w.sizes() != "[A=0 B=0]" {
			t.Errorf("the sizes are %s although nobody has seen the Machines of A go", w.sizes())
		}
		w.plan()
		w.machines = shown
		w.plan()
		if w.sizes() != "[A=0 B=0]" {
			t.Errorf("the sizes are %s although the Machines of A are there", w.sizes())
		}
		w.settle(nothing())
		w.expect(t, 0, 0, 3, 0)
	})
}
