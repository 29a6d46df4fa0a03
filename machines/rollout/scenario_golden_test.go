package rollout

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares a log with the golden file of the given name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got; run with -update to accept it)\n%s", path, diff)
	}
}

// TestWholeRolloutsEqualTheGoldenFiles compares every step of whole rollouts with the golden files.
func TestWholeRolloutsEqualTheGoldenFiles(t *testing.T) {
	t.Run("rollouts with different values of maxSurge and maxUnavailable take the steps in the golden file (MC-14, MC-15, MCM-9, CAPI-46)", wholeRollouts)
}

func wholeRollouts(t *testing.T) {
	shapes := []shape{
		{1, "1", "0"}, {1, "0", "1"}, {3, "1", "0"}, {3, "0", "1"}, {3, "1", "1"}, {3, "0", "0"},
		{10, "3", "2"}, {10, "25%", "25%"}, {10, "100%", "0"}, {10, "0", "100%"}, {4, "10%", "10%"}, {0, "1", "0"},
	}
	var log strings.Builder
	for _, s := range shapes {
		w := newSimulation(s)
		w.settle(&strings.Builder{})
		fmt.Fprintf(&log, "== %d replicas, surge %s, unavailable %s: template A becomes B\n", s.replicas, s.surge, s.unavailable)
		w.template("B")
		w.settle(&log)
		if w.most > s.replicas+must(w.limits()).surge {
			t.Errorf("%+v had %d Machines at the same time (MCM-7)", s, w.most)
		}
		if living, available, leaving := w.count(); living != s.replicas || available != s.replicas || leaving != 0 {
			t.Errorf("%+v ends with %d living, %d available, %d leaving", s, living, available, leaving)
		}
	}
	golden(t, "rollouts", log.String())
}

// scenario is a simulated rollout. run changes the deployment, lets the simulation act, and writes its steps to log.
type scenario struct {
	name  string
	shape shape
	run   func(w *simulation, log *strings.Builder)
}

// steps makes the planner, the sets and the Machines act n times.
func (w *simulation) steps(n int, log *strings.Builder) {
	for range n {
		p, wrote := w.plan()
		if wrote {
			fmt.Fprintf(log, "%s\n", w.sizes())
			for _, step := range p.Steps {
				fmt.Fprintf(log, "    %s\n", w.readable(step.String()))
			}
		}
		for _, set := range w.sets {
			w.act(set)
		}
		for _, m := range append([]*v1alpha1.Machine(nil), w.machines...) {
			w.advance(m)
		}
	}
}

func (w *simulation) note(log *strings.Builder, what string) { fmt.Fprintf(log, "-- %s\n", what) }

func (w *simulation) first(template string) *v1alpha1.Machine {
	for _, m := range w.machines {
		if m.Spec.Versions.Kubelet == template && m.DeletionTimestamp.IsZero() {
			return m
		}
	}
	return nil
}

var scenarios = []scenario{
	{"rolls over to C before B is ready (MC-22)", shape{10, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.note(log, "template C")
		w.template("C")
		w.settle(log)
	}},
	{"uses the set of A again after the template is changed back to A (MC-22)", shape{10, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.note(log, "template A again")
		w.template("A")
		w.settle(log)
	}},
	{"stops at a template that never works (MCM-10)", shape{5, "1", "1"}, func(w *simulation, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
	}},
	{"removes unavailable Machines first (MC-23, MCM-11)", shape{5, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.ready(w.machines[3], false)
		w.ready(w.machines[4], false)
		w.template("B")
		w.settle(log)
	}},
	{"scales its sets in proportion while paused and continues when resumed (MC-24)", shape{10, "3", "2"}, func(w *simulation, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.d.Spec.Paused, w.broken["B"] = true, false
		for _, n := range []int32{20, 15, 5} {
			w.note(log, fmt.Sprintf("paused, scaled to %d", n))
			w.scale(n)
			w.settle(log)
		}
		w.note(log, "paused, template C")
		w.template("C")
		w.settle(log)
		w.note(log, "resumed")
		w.d.Spec.Paused = false
		w.settle(log)
	}},
	{"deletes a Machine in spec.removals while paused (MC-24)", shape{6, "2", "0"}, func(w *simulation, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.d.Spec.Paused = true
		w.note(log, "an A is named for removal")
		w.remove(w.first("A"))
		w.settle(log)
	}},
	{"grows only the set of B when scaled up (MCM-12, MC-29)", shape{5, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.note(log, "scaled to 8")
		w.scale(8)
		w.settle(log)
	}},
	{"keeps enough available Machines when scaled down (MC-29)", shape{8, "2", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.note(log, "scaled to 4")
		w.scale(4)
		w.settle(log)
	}},
	{"shrinks each set by its share when scaled down (MCM-13)", shape{10, "4", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(6, log)
		w.note(log, "scaled to 5")
		w.scale(5)
		w.settle(log)
	}},
	{"deletes a Machine in spec.removals and creates one for a larger size while paused (CAPI-52)", shape{6, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(4, log)
		w.note(log, "paused, an A is named for removal, then the size is raised by one")
		w.d.Spec.Paused = true
		w.remove(w.first("A"))
		w.settle(log)
		w.scale(6)
		w.settle(log)
		w.note(log, "resumed")
		w.d.Spec.Paused = false
		w.settle(log)
	}},
	{"removes an unavailable Machine to make room for a new one while a draining Machine uses up maxSurge", shape{4, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.ready(w.machines[0], false)
		w.ready(w.machines[1], false)
		w.stuck[w.machines[0].Name] = true
		w.template("B")
		w.settle(log)
	}},
	{"replaces at most two Machines at once when that is the limit for all deployments together", shape{6, "3", "0"}, func(w *simulation, log *strings.Builder) {
		w.limit = new(int32(2))
		w.template("B")
		w.steps(4, log)
		w.note(log, "scaled to 7: Machines that are lacking are not replacements")
		w.scale(7)
		w.settle(log)
	}},
	{"replaces at most two Machines at once with the strategy Recreate when that is the limit for all deployments together", shape{3, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.d.Spec.Strategy.Type, w.limit = v1alpha1.Recreate, new(int32(2))
		w.template("B")
		w.settle(log)
	}},
	{"rolls back to the former template (MCM-18)", shape{3, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.settle(log)
		w.note(log, "rolled back to the previous revision")
		w.d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "0"}
		p := Rollback(w.d, w.snapshot().Sets)
		w.note(log, w.readable(p.Message))
		w.d.Spec.Template, w.d.Annotations = *p.Template, nil
		w.d.Generation++
		w.settle(log)
	}},
	{"creates servers for a scale-up while Machines of an earlier scale-down still drain (MC-17, F-33)", shape{10, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.slow = true
		w.note(log, "scaled to 5, and the drains do not end")
		w.scale(5)
		w.settle(log)
		w.note(log, "scaled to 10")
		w.scale(10)
		w.settle(log)
		w.note(log, "the drains end, and B works")
		w.slow, w.broken["B"] = false, false
		w.settle(log)
	}},
	{"shrinks the set of the Machine that is annotated for deletion (MC-28)", shape{4, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(5, log)
		w.note(log, "a B gets the annotation delete-machine, scaled to 3")
		w.first("B").Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "yes"}
		w.scale(3)
		w.settle(log)
	}},
	{"scales to 0 (MCM-15)", shape{5, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.note(log, "scaled to 0")
		w.scale(0)
		w.settle(log)
	}},
	{"deletes the two Machines in spec.removals, one of template A and one of template B (CA-C80)", shape{6, "2", "0"}, func(w *simulation, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.note(log, "an A and a B are named for removal")
		w.remove(w.first("A"))
		w.remove(w.first("B"))
		w.settle(log)
	}},
	{"deletes all old Machines first with the strategy Recreate (MCM-19)", shape{3, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.d.Spec.Strategy.Type = v1alpha1.Recreate
		w.template("B")
		w.settle(log)
	}},
	{"replaces only deleted Machines with the strategy OnDelete", shape{3, "1", "0"}, func(w *simulation, log *strings.Builder) {
		w.d.Spec.Strategy.Type = v1alpha1.OnDelete
		w.template("B")
		w.settle(log)
		w.note(log, "an A is deleted")
		w.delete(w.first("A"))
		w.settle(log)
		w.note(log, "scaled to 5, then to 1")
		w.scale(5)
		w.settle(log)
		w.scale(1)
		w.settle(log)
	}},
}

func TestRolloutsTakeTheStepsOfTheGoldenFiles(t *testing.T) {
	for _, s := range scenarios {
		t.Run("a rollout from template A to B "+s.name, func(t *testing.T) {
			w := newSimulation(s.shape)
			w.settle(&strings.Builder{})
			var log strings.Builder
			fmt.Fprintf(&log, "== %s: %d replicas, surge %s, unavailable %s\n", s.name, s.shape.replicas, s.shape.surge, s.shape.unavailable)
			s.run(w, &log)
			golden(t, strings.NewReplacer(" ", "-", ":", "", ",", "", "(", "", ")", "").Replace(s.name), log.String())
		})
	}
}
