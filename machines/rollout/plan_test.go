package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func condition(p Plan, kind string) metav1.Condition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

func settled(s shape) *world {
	w := newWorld(s)
	w.settle(&strings.Builder{})
	return w
}

func TestSizeThatNobodyGives(t *testing.T) {
	last := int32(4)
	tests := map[string]struct {
		last   *int32
		bounds v1alpha1.Bounds
		want   int32
	}{
		"a new object gets 1":                    {nil, v1alpha1.Bounds{}, 1},
		"a new node group gets its minimum":      {nil, v1alpha1.Bounds{Min: 2, Max: 5, Listed: true}, 2},
		"the last size comes back":               {&last, v1alpha1.Bounds{Min: 2, Max: 5, Listed: true}, 4},
		"the last size is clamped to a maximum":  {&last, v1alpha1.Bounds{Min: 1, Max: 3, Listed: true}, 3},
		"the last size is clamped to a minimum":  {&last, v1alpha1.Bounds{Min: 6, Max: 9, Listed: true}, 6},
		"without bounds the last size is enough": {&last, v1alpha1.Bounds{}, 4},
	}
	for name, tt := range tests {
		t.Run("MC-1 "+name, func(t *testing.T) {
			w := newWorld(shape{3, "1", "0"})
			w.d.Spec.Replicas, w.d.Status.LastReplicas = nil, tt.last
			s := w.snapshot()
			s.Bounds = tt.bounds
			if p, err := Compute(s); err != nil || p.Replicas != tt.want || !p.RestoreReplicas {
				t.Errorf("got %d, put back: %v, %v", p.Replicas, p.RestoreReplicas, err)
			}
		})
	}
	t.Run("a removal in flight is not undone by a manifest without the size", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[0])
		w.d.Spec.Replicas = nil
		if p, err := Compute(w.snapshot()); err != nil || p.Replicas != 3 {
			t.Errorf("got %d, %v", p.Replicas, err)
		}
	})
}

func TestARemovalThatStatusDoesNotKnowYet(t *testing.T) {
	w := settled(shape{4, "1", "0"})
	before := w.d.Status
	w.remove(w.machines[0])
	w.plan()
	w.d.Status, w.d.Spec.Replicas = before, nil
	if p, err := Compute(w.snapshot()); err != nil || p.Replicas != 3 {
		t.Errorf("the process ended between set and status, then the size was dropped: got %d, want 3; %v", p.Replicas, err)
	}
}

func TestRemovals(t *testing.T) {
	t.Run("CA-C65 the share travels in the write that lowers the size", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[2])
		w.remove(w.machines[0])
		p, err := Compute(w.snapshot())
		if err != nil || len(p.Changes) != 1 || p.Changes[0].Replicas != 2 || len(p.Changes[0].Removals) != 2 {
			t.Errorf("changes %+v, %v", p.Changes, err)
		}
	})
	t.Run("the same plan again changes nothing", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[2])
		w.plan()
		if p, wrote := w.plan(); wrote {
			t.Errorf("changes %+v", p.Changes)
		}
	})
	t.Run("an entry stays for 15 minutes after its Machine is gone", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.remove(w.machines[0])
		w.settle(&strings.Builder{})
		p, _ := w.plan()
		if len(w.d.Spec.Removals) != 1 || p.RequeueAfter != removalAge {
			t.Errorf("%d entries, looks again in %s", len(w.d.Spec.Removals), p.RequeueAfter)
		}
		w.now = w.now.Add(removalAge)
		w.settle(&strings.Builder{})
		if len(w.d.Spec.Removals) != 0 || len(w.sets[0].Spec.Removals) != 0 {
			t.Errorf("left are %v and %v", w.d.Spec.Removals, w.sets[0].Spec.Removals)
		}
	})
	t.Run("an entry stays as long as its Machine", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		w.remove(w.machines[0])
		w.now = w.now.Add(time.Hour)
		if p, err := Compute(w.snapshot()); err != nil || p.WriteRemovals {
			t.Errorf("pruned to %v, %v", p.Removals, err)
		}
	})
}

// whileOneDies is a group of three with OnDelete: somebody has deleted one of an old template, which still drains, and the
// current set has made another one for it.
func whileOneDies(replacement string) (w *world, dying *v1alpha1.Machine) {
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

func TestADyingMachineThatIsNamedTakesNoOtherAlong(t *testing.T) {
	for _, tt := range []struct {
		name, replacement string
		// lowered: the size goes down by it, and what replaces it is named too.
		lowered bool
		sizes   string
	}{
		{"CA-C68 CA-C88 its replacement has a node: both sizes stay", "there", false, "[A=2 B=1]"},
		{"CA-C68 CA-C88 its replacement is named with it: that one goes", "on its way", true, "[A=2 B=0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, dying := whileOneDies(tt.replacement)
			replacement := w.machines[len(w.machines)-1]
			w.remove(dying)
			w.scale(3)
			if tt.lowered {
				w.remove(replacement)
			}
			w.settle(&strings.Builder{})
			if w.sizes() != tt.sizes || len(w.deleted) > 1 || w.deleted[replacement.Name] != tt.lowered {
				t.Errorf("the sizes are %s, want %s; sets have deleted %v", w.sizes(), tt.sizes, w.deleted)
			}
		})
	}
	t.Run("CA-C88 one that is too many anyway, before its set has let it go", func(t *testing.T) {
		w, _ := whileOneDies("there")
		w.scale(2)
		w.plan()
		goes, stays := w.machines[1], w.machines[2]
		w.remove(goes)
		w.scale(2)
		w.settle(&strings.Builder{})
		if w.sizes() != "[A=1 B=1]" || !w.deleted[goes.Name] || w.deleted[stays.Name] {
			t.Errorf("the sizes are %s; sets have deleted %v, and %s should stay", w.sizes(), w.deleted, stays.Name)
		}
	})
	t.Run("CA-C68 before its set has made another one none is made", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.delete(w.machines[0])
		w.remove(w.machines[0])
		made := w.made
		w.settle(&strings.Builder{})
		if w.sizes() != "[A=2]" || w.made != made {
			t.Errorf("the sizes are %s, %d made", w.sizes(), w.made-made)
		}
	})
}

func TestConditions(t *testing.T) {
	t.Run("MC-27 complete", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		p, _ := w.plan()
		if c := condition(p, "Progressing"); c.Status != "True" || c.Reason != ReasonComplete {
			t.Errorf("Progressing is %+v", c)
		}
		if c := condition(p, "Available"); c.Status != "True" || p.Status.ObservedGeneration != w.d.Generation {
			t.Errorf("Available is %+v", c)
		}
	})
	t.Run("MC-27 MCM-17 CAPI-47 no progress is told at the deadline, and cleared by progress", func(t *testing.T) {
		w := settled(shape{3, "1", "1"})
		w.broken["B"] = true
		w.template("B")
		w.settle(&strings.Builder{})
		p, _ := w.plan()
		if p.RequeueAfter <= 0 || p.RequeueAfter > defaultDeadline+time.Second {
			t.Errorf("looks again in %s", p.RequeueAfter)
		}
		w.now = w.now.Add(p.RequeueAfter)
		p, _ = w.plan()
		if c := condition(p, "Progressing"); c.Status != "False" || c.Reason != ReasonDeadline {
			t.Errorf("Progressing is %+v", c)
		}
		w.broken["B"] = false
		w.settle(&strings.Builder{})
		p, _ = w.plan()
		if c := condition(p, "Progressing"); c.Reason != ReasonComplete || p.Status.UpdatedReplicas != 3 {
			t.Errorf("Progressing is %+v, updated %d", c, p.Status.UpdatedReplicas)
		}
	})
	t.Run("MC-27 Degraded names what is wrong, and clears", func(t *testing.T) {
		w := settled(shape{3, "1", "1"})
		p, _ := w.plan()
		if c := condition(p, "Degraded"); c.Status != "False" || c.Reason != ReasonHealthy {
			t.Errorf("Degraded is %+v", c)
		}
		reason := "Quota"
		w.machines[1].Status.ErrorReason = &reason
		p, _ = w.plan()
		if c := condition(p, "Degraded"); c.Status != "True" || c.Reason != ReasonFailed || !strings.Contains(c.Message, w.machines[1].Name) {
			t.Errorf("Degraded is %+v", c)
		}
		w.machines[1].Status.ErrorReason = nil
		w.sets[0].Status.ErrorReason = new("CreateError")
		p, _ = w.plan()
		if c := condition(p, "Degraded"); c.Status != "True" || c.Reason != ReasonSetError {
			t.Errorf("Degraded is %+v", c)
		}
		w.sets[0].Status.ErrorReason = nil
		w.broken["B"] = true
		w.template("B")
		w.settle(&strings.Builder{})
		w.now = w.now.Add(defaultDeadline + time.Second)
		p, _ = w.plan()
		if c := condition(p, "Degraded"); c.Status != "True" || c.Reason != ReasonDeadline {
			t.Errorf("Degraded is %+v", c)
		}
	})
	t.Run("MCM-16 paused", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.d.Spec.Paused = true
		w.template("B")
		p, wrote := w.plan()
		if c := condition(p, "Progressing"); c.Status != "Unknown" || c.Reason != ReasonPaused || wrote {
			t.Errorf("Progressing is %+v, wrote: %v", c, wrote)
		}
	})
	t.Run("MC-37 MCM-22a Ready is available after minReadySeconds", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		n := int32(30)
		w.d.Spec.MinReadySeconds = &n
		w.now = w.now.Add(10 * time.Second)
		p, _ := w.plan()
		if p.Status.ReadyReplicas != 2 || p.Status.AvailableReplicas != 0 || p.RequeueAfter != 20*time.Second {
			t.Errorf("%d ready, %d available, looks again in %s", p.Status.ReadyReplicas, p.Status.AvailableReplicas, p.RequeueAfter)
		}
	})
}

func TestRevisions(t *testing.T) {
	t.Run("MC-18 MC-20 MC-21 a template that comes back uses its set again, under the next revision", revisionsOfTemplates)
}

func revisionsOfTemplates(t *testing.T) {
	w := settled(shape{1, "1", "0"})
	for _, template := range []string{"B", "A", "B"} {
		w.template(template)
		w.settle(&strings.Builder{})
	}
	p, err := Compute(w.snapshot())
	if err != nil {
		t.Fatal(err)
	}
	a, b := w.sets[0].Annotations, w.sets[1].Annotations
	if a[v1alpha1.AnnotationRevision] != "3" || a[v1alpha1.AnnotationRevisionHistory] != "1" || b[v1alpha1.AnnotationRevision] != "4" || b[v1alpha1.AnnotationRevisionHistory] != "2" {
		t.Errorf("MC-20 A has %v, B has %v", a, b)
	}
	if p.Revision != "4" {
		t.Errorf("MC-20 the deployment gets %q", p.Revision)
	}
	w.d.Annotations = map[string]string{"note": "x"}
	w.settle(&strings.Builder{})
	if b[v1alpha1.AnnotationRevisionHistory] != "2" || b["note"] != "x" || len(w.machines) != 1 {
		t.Errorf("MC-18 MC-21 an annotation of the deployment: B has %v", b)
	}
}

func TestHistoryLimit(t *testing.T) {
	t.Run("MC-1 MC-25 MCM-21 the oldest empty sets go, once the deployment is complete", historyLimit)
}

func historyLimit(t *testing.T) {
	for limit, want := range map[int32]string{-1: "[C=0 D=1]", 3: "[A=0 B=0 C=0 D=1]", 1: "[C=0 D=1]", 0: "[D=1]"} {
		w := settled(shape{1, "1", "0"})
		if limit >= 0 {
			w.d.Spec.RevisionHistoryLimit = &limit
		}
		for _, template := range []string{"B", "C", "D"} {
			w.template(template)
			w.settle(&strings.Builder{})
			for _, set := range w.sets {
				set.Status.ObservedGeneration = set.Generation
			}
			w.settle(&strings.Builder{})
		}
		if got := w.sizes(); got != want {
			t.Errorf("MC-25 MCM-21 limit %d leaves %s, want %s", limit, got, want)
		}
	}
}

func TestNodesBeingRolled(t *testing.T) {
	t.Run("MCM-20 those of an old template, while the rollout goes on", nodesBeingRolled)
}

func nodesBeingRolled(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("MCM-20 at rest %v are rolled", p.Rolled)
	}
	w.broken["B"] = true
	w.template("B")
	w.settle(&strings.Builder{})
	if p, _ := w.plan(); len(p.Rolled) != 3 || strings.Contains(strings.Join(p.Rolled, " "), "B") {
		t.Errorf("MCM-20 %v are rolled, the three of A should be", p.Rolled)
	}
	later := w.now
	w.now = w.now.Add(defaultDeadline + time.Second)
	w.plan()
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("MCM-20 %v are rolled although the rollout has stopped", p.Rolled)
	}
	w.now = later
	w.d.Spec.Paused = true
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("MCM-20 %v are rolled although the rollout is paused", p.Rolled)
	}
	w.d.Spec.Paused = false
	w.template("A")
	w.settle(&strings.Builder{})
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("MCM-20 %v are rolled although A is wanted again", p.Rolled)
	}
}

func TestAStaleAnnotationOfTheSize(t *testing.T) {
	t.Run("MCM-14 is refreshed, and no size changes", staleAnnotation)
}

func staleAnnotation(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	w.broken["B"] = true
	w.template("B")
	w.settle(&strings.Builder{})
	before := w.sizes()
	for _, set := range w.sets {
		set.Annotations[v1alpha1.AnnotationDesiredReplicas] = "7"
	}
	p, wrote := w.plan()
	if !wrote || w.sizes() != before || w.sets[0].Annotations[v1alpha1.AnnotationDesiredReplicas] != "3" {
		t.Errorf("MCM-14 sizes %s became %s: %v", before, w.sizes(), p.Steps)
	}
}

func TestANegativeSizeThatWasStored(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	w.sets[0].Spec.Replicas = new(int32(-1))
	p, _ := w.plan()
	if len(p.Changes) != 1 || p.Changes[0].Replicas != 3 {
		t.Errorf("changes %+v", p.Changes)
	}
}

func TestATakenName(t *testing.T) {
	t.Run("MC-26 MCM-22 is left to the set that has it", takenName)
}

func takenName(t *testing.T) {
	w := settled(shape{1, "1", "0"})
	w.sets[0].Spec.Template.Spec.Versions.Kubelet = "another"
	p, err := Compute(w.snapshot())
	if err != nil || p.Create == nil || p.Create.Name == w.sets[0].Name || p.Status.CollisionCount == nil || *p.Status.CollisionCount != 1 {
		t.Errorf("MC-26 MCM-22 makes %v, %v", p.Create, err)
	}
}

// crowd is a deployment of 5000 Machines in 100 sets.
func crowd() Snapshot {
	w := newWorld(shape{5000, "25%", "25%"})
	s := w.snapshot()
	for i := range 100 {
		n := int32(50)
		set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("md-%d", i), UID: types.UID(fmt.Sprint("set", i))}}
		set.Spec.Replicas = &n
		set.Spec.Template = *w.d.Spec.Template.DeepCopy()
		set.Spec.Template.Spec.Versions.Kubelet = fmt.Sprint("old", i)
		state := SetState{Set: set}
		for j := range 50 {
			m := fact(fmt.Sprintf("m-%d-%d", i, j), j).Machine
			w.ready(m, true)
			state.Machines = append(state.Machines, m)
		}
		s.Sets = append(s.Sets, state)
	}
	return s
}

// BenchmarkPlanning5000MachinesIn100Sets: at most 5 ms are wanted.
func BenchmarkPlanning5000MachinesIn100Sets(b *testing.B) {
	s := crowd()
	for b.Loop() {
		if _, err := Compute(s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/plan")
}

// BenchmarkRecordingAPlan is what keeping such a plan for people costs.
func BenchmarkRecordingAPlan(b *testing.B) {
	s := crowd()
	for b.Loop() {
		if _, err := NewRecord(s, Plan{}); err != nil {
			b.Fatal(err)
		}
	}
}
