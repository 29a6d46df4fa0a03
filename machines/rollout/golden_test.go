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

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what happened with the file of that name under testdata.
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
		t.Errorf("%s: -want +got (run with -update when it is meant)\n%s", path, diff)
	}
}

// TestWholeRollouts writes down every step of whole rollouts.
func TestWholeRollouts(t *testing.T) {
	t.Run("MC-14 MC-15 MCM-9 CAPI-46 the sizes at each quiet point, for each surge and unavailable", wholeRollouts)
}

func wholeRollouts(t *testing.T) {
	shapes := []shape{
		{1, "1", "0"}, {1, "0", "1"}, {3, "1", "0"}, {3, "0", "1"}, {3, "1", "1"}, {3, "0", "0"},
		{10, "3", "2"}, {10, "25%", "25%"}, {10, "100%", "0"}, {10, "0", "100%"}, {4, "10%", "10%"}, {0, "1", "0"},
	}
	var log strings.Builder
	for _, s := range shapes {
		w := newWorld(s)
		w.settle(&strings.Builder{})
		fmt.Fprintf(&log, "== %d replicas, surge %s, unavailable %s: template A becomes B\n", s.replicas, s.surge, s.unavailable)
		w.template("B")
		w.settle(&log)
		if w.most > s.replicas+must(w.limits()).surge {
			t.Errorf("MCM-7 %+v had %d Machines at once", s, w.most)
		}
		if living, available, leaving := w.count(); living != s.replicas || available != s.replicas || leaving != 0 {
			t.Errorf("%+v ends with %d living, %d available, %d leaving", s, living, available, leaving)
		}
	}
	golden(t, "rollouts", log.String())
}

// story is a rollout in which something happens.
type story struct {
	name  string
	shape shape
	tell  func(w *world, log *strings.Builder)
}

// steps lets the planner and the sets act n times, Machines each time.
func (w *world) steps(n int, log *strings.Builder) {
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

func (w *world) say(log *strings.Builder, what string) { fmt.Fprintf(log, "-- %s\n", what) }

func (w *world) first(template string) *v1alpha1.Machine {
	for _, m := range w.machines {
		if m.Spec.Versions.Kubelet == template && m.DeletionTimestamp.IsZero() {
			return m
		}
	}
	return nil
}

var stories = []story{
	{"MC-22 rollover before B is ready", shape{10, "1", "0"}, func(w *world, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.say(log, "template C")
		w.template("C")
		w.settle(log)
	}},
	{"MC-22 revert makes no third set", shape{10, "1", "0"}, func(w *world, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.say(log, "template A again")
		w.template("A")
		w.settle(log)
	}},
	{"MCM-10 a template that never works stops the roll", shape{5, "1", "1"}, func(w *world, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
	}},
	{"MC-23 MCM-11 what is not available goes first", shape{5, "1", "0"}, func(w *world, log *strings.Builder) {
		w.ready(w.machines[3], false)
		w.ready(w.machines[4], false)
		w.template("B")
		w.settle(log)
	}},
	{"MC-24 paused, scaled up and down in proportion, resumed", shape{10, "3", "2"}, func(w *world, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.d.Spec.Paused, w.broken["B"] = true, false
		for _, n := range []int32{20, 15, 5} {
			w.say(log, fmt.Sprintf("paused, scaled to %d", n))
			w.scale(n)
			w.settle(log)
		}
		w.say(log, "paused, template C")
		w.template("C")
		w.settle(log)
		w.say(log, "resumed")
		w.d.Spec.Paused = false
		w.settle(log)
	}},
	{"MC-24 paused with a removal", shape{6, "2", "0"}, func(w *world, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.d.Spec.Paused = true
		w.say(log, "an old one is named")
		w.remove(w.first("A"))
		w.settle(log)
	}},
	{"MCM-12 MC-29 scaled up in a roll: only B grows", shape{5, "1", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.say(log, "scaled to 8")
		w.scale(8)
		w.settle(log)
	}},
	{"MC-29 scaled down in a roll keeps the floor", shape{8, "2", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.say(log, "scaled to 4")
		w.scale(4)
		w.settle(log)
	}},
	{"MCM-13 scaled down in a roll, each set gives its share", shape{10, "4", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(6, log)
		w.say(log, "scaled to 5")
		w.scale(5)
		w.settle(log)
	}},
	{"CAPI-52 paused in a roll, a removal and growth while paused", shape{6, "1", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(4, log)
		w.say(log, "paused, an old one is named, then one more is wanted")
		w.d.Spec.Paused = true
		w.remove(w.first("A"))
		w.settle(log)
		w.scale(6)
		w.settle(log)
		w.say(log, "resumed")
		w.d.Spec.Paused = false
		w.settle(log)
	}},
	{"the deadlock breaker: what is leaving does not go, one not available makes room", shape{4, "1", "0"}, func(w *world, log *strings.Builder) {
		w.ready(w.machines[0], false)
		w.ready(w.machines[1], false)
		w.stuck[w.machines[0].Name] = true
		w.template("B")
		w.settle(log)
	}},
	{"held back by the cap over all deployments", shape{6, "3", "0"}, func(w *world, log *strings.Builder) {
		w.brake = new(int32(2))
		w.template("B")
		w.steps(4, log)
		w.say(log, "one more is wanted: what is lacking is no replacement")
		w.scale(7)
		w.settle(log)
	}},
	{"Recreate held back by the cap over all deployments", shape{3, "1", "0"}, func(w *world, log *strings.Builder) {
		w.d.Spec.Strategy.Type, w.brake = v1alpha1.Recreate, new(int32(2))
		w.template("B")
		w.settle(log)
	}},
	{"MCM-18 a rollback is a rollout to the former template", shape{3, "1", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.settle(log)
		w.say(log, "rolled back to the revision before")
		w.d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "0"}
		p := Rollback(w.d, w.snapshot().Sets)
		w.say(log, w.readable(p.Message))
		w.d.Spec.Template, w.d.Annotations = *p.Template, nil
		w.d.Generation++
		w.settle(log)
	}},
	{"MC-17 scaled down and up again in a roll with slow drains (F-33)", shape{10, "1", "0"}, func(w *world, log *strings.Builder) {
		w.broken["B"] = true
		w.template("B")
		w.settle(log)
		w.slow = true
		w.say(log, "scaled to 5, and the drains last")
		w.scale(5)
		w.settle(log)
		w.say(log, "scaled to 10")
		w.scale(10)
		w.settle(log)
		w.say(log, "the drains end, and B works")
		w.slow, w.broken["B"] = false, false
		w.settle(log)
	}},
	{"MC-28 marked machine decides which set shrinks", shape{4, "1", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(5, log)
		w.say(log, "a B is marked, scaled to 3")
		w.first("B").Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "yes"}
		w.scale(3)
		w.settle(log)
	}},
	{"MCM-15 scaled to 0 in a roll", shape{5, "1", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.say(log, "scaled to 0")
		w.scale(0)
		w.settle(log)
	}},
	{"CA-C80 removals of old and new machines in a roll", shape{6, "2", "0"}, func(w *world, log *strings.Builder) {
		w.template("B")
		w.steps(3, log)
		w.say(log, "one A and one B are named")
		w.remove(w.first("A"))
		w.remove(w.first("B"))
		w.settle(log)
	}},
	{"MCM-19 Recreate", shape{3, "1", "0"}, func(w *world, log *strings.Builder) {
		w.d.Spec.Strategy.Type = v1alpha1.Recreate
		w.template("B")
		w.settle(log)
	}},
	{"OnDelete follows what people delete", shape{3, "1", "0"}, func(w *world, log *strings.Builder) {
		w.d.Spec.Strategy.Type = v1alpha1.OnDelete
		w.template("B")
		w.settle(log)
		w.say(log, "an A is deleted")
		w.delete(w.first("A"))
		w.settle(log)
		w.say(log, "scaled to 5, then to 1")
		w.scale(5)
		w.settle(log)
		w.scale(1)
		w.settle(log)
	}},
}

func TestStoriesOfRollouts(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(s.shape)
			w.settle(&strings.Builder{})
			var log strings.Builder
			fmt.Fprintf(&log, "== %s: %d replicas, surge %s, unavailable %s\n", s.name, s.shape.replicas, s.shape.surge, s.shape.unavailable)
			s.tell(w, &log)
			golden(t, strings.NewReplacer(" ", "-", ":", "", ",", "", "(", "", ")", "").Replace(s.name), log.String())
		})
	}
}
