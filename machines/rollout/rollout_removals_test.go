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

// midRoll returns a rollout from A to B that stands still because the Machines that it removed take long to drain.
func midRoll(s shape) *simulation {
	w := settled(s)
	w.slow = true
	w.template("B")
	w.settle(nothing())
	return w
}

// servers counts the living Machines of a template, and its leaving Machines that still have a server.
func (w *simulation) servers(template string) (living, leaving int) {
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

func (w *simulation) expect(t *testing.T, livingA, leavingA, livingB, leavingB int) {
	t.Helper()
	a, aLeaving := w.servers("A")
	b, bLeaving := w.servers("B")
	if got, want := [4]int{a, aLeaving, b, bLeaving}, [4]int{livingA, leavingA, livingB, leavingB}; got != want {
		t.Errorf("living and leaving A, living and leaving B are %v, want %v; sizes %s", got, want, w.sizes())
	}
}

func TestALargerSizeInARollout(t *testing.T) {
	t.Run("when the size changes from 10 to 5 and back to 10, 5 servers are created at once, while 5 Machines drain (MC-17, MCM-7, F-33)", func(t *testing.T) {
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
			t.Errorf("one plan creates %d servers, want 5", w.made-made)
		}
	})
	t.Run("servers for a larger size are created while a Machine that was deleted by hand still drains (MC-17, F-33)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.broken["B"], w.slow = true, true
		w.template("B")
		w.settle(nothing())
		w.delete(w.first("A"))
		w.scale(6)
		w.settle(nothing())
		w.expect(t, 4, 1, 3, 0)
	})
	t.Run("servers for a larger size are created while a Machine that a removal names still drains (MC-17, F-33)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.broken["B"], w.slow = true, true
		w.template("B")
		w.settle(nothing())
		w.remove(w.first("A"))
		w.scale(4)
		w.settle(nothing())
		w.expect(t, 3, 1, 2, 0)
	})
	t.Run("when the size is raised from 4 to 5, only one server is created while Machines that the rollout removed drain (MC-17, MCM-7, F-33)", func(t *testing.T) {
		w := midRoll(shape{4, "0", "2"})
		w.expect(t, 2, 2, 0, 0)
		w.scale(5)
		w.settle(nothing())
		w.expect(t, 2, 2, 1, 0)
	})
}

func TestMachinesThatARolloutRemovedCountTowardsReplicasPlusSurgeWhileTheyDrain(t *testing.T) {
	for name, change := range map[string]func(*simulation){
		"no server beyond replicas plus surge is created after a pause of the deployment (MC-17, F-33)":           func(w *simulation) { w.d.Spec.Paused = true },
		"no server beyond replicas plus surge is created after a change back to the first template (MC-17, F-33)": func(w *simulation) { w.template("A") },
		"no server beyond replicas plus surge is created after a change to a third template (MC-17, F-33)":        func(w *simulation) { w.template("C") },
		"no server beyond replicas plus surge is created after a change to the strategy OnDelete (MC-17, F-33)":   func(w *simulation) { w.d.Spec.Strategy.Type = v1alpha1.OnDelete },
		"no server beyond replicas plus surge is created after a change to the strategy Recreate (MC-17, F-33)":   func(w *simulation) { w.d.Spec.Strategy.Type = v1alpha1.Recreate },
	} {
		t.Run(name, func(t *testing.T) {
			w := midRoll(shape{4, "0", "2"})
			change(w)
			w.settle(nothing())
			if len(w.machines) != 4 {
				t.Errorf("%d servers, want 4; sizes %s", len(w.machines), w.sizes())
			}
		})
	}
	t.Run("a write that lowers a set's size adds entries to spec.rolloutRemovals and drops those of Machines that are gone (MC-17, F-33)", func(t *testing.T) {
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
	t.Run("after an upgrade from a version of drover without spec.rolloutRemovals, Machines that already drain count too (MC-17, F-33)", func(t *testing.T) {
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

func TestARolloutKeepsEnoughAvailableMachines(t *testing.T) {
	for _, tt := range []struct {
		name string
		// Each field lists some of the four Machines of an old set whose size is 3: notReady, young (Ready, not yet available) and marked
		// (annotated for deletion). stays lists the available Machines that must not be deleted.
		notReady, young, marked, stays []int
	}{
		{name: "keeps two available Machines when one Machine is not Ready and one is not available yet (MC-16, MCM-8, F-31)",
			notReady: []int{0}, young: []int{2}, stays: []int{1, 3}},
		{name: "keeps an available Machine that is annotated for deletion when a NotReady Machine can be removed (MC-16, MCM-8, F-31)",
			notReady: []int{0, 2}, marked: []int{0, 1}, stays: []int{1, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
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
					t.Errorf("deleted are %v, but %s was available and had to stay", w.deleted, all[i].Name)
				}
			}
		})
	}
}

func TestReplicasWhoseMachinesTheCacheDoesNotShowYet(t *testing.T) {
	// The set A has created Machines; the cache of Machines is late, and two new templates follow.
	late := func(t *testing.T, report func(set *v1alpha1.MachineSet)) *simulation {
		t.Helper()
		w := newSimulation(shape{5, "1", "1"})
		w.plan()
		w.act(w.sets[0])
		report(w.sets[0])
		shown := w.machines
		w.machines = nil
		for _, template := range []string{"B", "C"} {
			w.template(template)
			w.plan()
		}
		w.machines = append(w.machines, shown...)
		return w
	}
	for name, report := range map[string]func(set *v1alpha1.MachineSet){
		"the status of the set counts its Machines":                    func(*v1alpha1.MachineSet) {},
		"the status of the set does not belong to its newest size yet": func(set *v1alpha1.MachineSet) { set.Status = v1alpha1.MachineSetStatus{} },
	} {
		t.Run("are not removed without naming the Machines, while "+name+", so that replicas plus surge are never exceeded (F-75)", func(t *testing.T) {
			w := late(t, report)
			for range 30 {
				for _, set := range w.sets {
					w.act(set)
				}
				if n := len(w.machines); n > 6 {
					t.Fatalf("there are %d Machines of %s, want at most 6", n, w.sizes())
				}
				w.plan()
				for _, m := range slices.Clone(w.machines) {
					w.advance(m)
				}
			}
		})
	}
}
