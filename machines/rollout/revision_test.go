package rollout

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestRevisionsOfSets(t *testing.T) {
	t.Run("a return to an earlier template reuses that template's set, which gets the next revision number (MC-18, MC-20, MC-21)", revisionsOfTemplates)
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
		t.Errorf("revisions: A has %v, B has %v", a, b)
	}
	if p.Revision != "4" {
		t.Errorf("the deployment gets revision %q", p.Revision)
	}
	w.d.Annotations = map[string]string{"note": "x"}
	w.settle(&strings.Builder{})
	if b[v1alpha1.AnnotationRevisionHistory] != "2" || b["note"] != "x" || len(w.machines) != 1 {
		t.Errorf("an annotation of the deployment: B has %v", b)
	}
}

func TestHistoryLimit(t *testing.T) {
	t.Run("the oldest empty sets beyond revisionHistoryLimit are deleted once the deployment is complete (MC-1, MC-25, MCM-21)", historyLimit)
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
			t.Errorf("limit %d leaves %s, want %s", limit, got, want)
		}
	}
}

func TestAnOutdatedSizeAnnotationOfASetIsRefreshed(t *testing.T) {
	t.Run("the annotation gets the deployment's size, and no set's size changes (MCM-14)", staleAnnotation)
}

func staleAnnotation(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	w.stall()
	before := w.sizes()
	for _, set := range w.sets {
		set.Annotations[v1alpha1.AnnotationDesiredReplicas] = "7"
	}
	p, wrote := w.plan()
	if !wrote || w.sizes() != before || w.sets[0].Annotations[v1alpha1.AnnotationDesiredReplicas] != "3" {
		t.Errorf("sizes %s became %s: %v", before, w.sizes(), p.Steps)
	}
}

func TestASetNameThatIsTakenIsNotReused(t *testing.T) {
	t.Run("the new set gets another name, and status.collisionCount rises (MC-26, MCM-22)", takenName)
}

func takenName(t *testing.T) {
	w := settled(shape{1, "1", "0"})
	w.sets[0].Spec.Template.Spec.Versions.Kubelet = "another"
	delete(w.sets[0].Annotations, v1alpha1.AnnotationDecided)
	p, err := Compute(w.snapshot())
	if err != nil || p.Create == nil || p.Create.Name == w.sets[0].Name || p.Status.CollisionCount == nil || *p.Status.CollisionCount != 1 {
		t.Errorf("Compute() creates %v, %v", p.Create, err)
	}
}
