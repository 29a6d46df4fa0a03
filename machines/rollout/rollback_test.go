package rollout

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestARollbackThatADeploymentsAnnotationRequests(t *testing.T) {
	w := settled(shape{1, "1", "0"})
	limit := int32(10)
	w.d.Spec.RevisionHistoryLimit = &limit
	for _, name := range []string{"B", "C", "A"} {
		w.template(name)
		w.settle(&strings.Builder{})
	}
	// Set A has become current again: its revision is 4, and its history contains 1. B has revision 2, and C has revision 3.
	tests := map[string]struct {
		asked, reason, template, says string
	}{
		"restores the template of the revision that the annotation names (MCM-18)":                      {"2", ReasonRollback, "B", "from set"},
		"restores the template of the previous revision when the annotation names revision 0 (MCM-18)":  {"0", ReasonRollback, "C", "from set"},
		"changes nothing when the revision that the annotation names has the current template (MCM-18)": {"1", ReasonRollbackUnchanged, "", "already"},
		"is refused when the revision in the annotation does not exist (MCM-18)":                        {"9", ReasonRollbackNotFound, "", "existing revisions: 2, 3, 4"},
		"is refused when the revision in the annotation is not a number (MCM-18)":                       {"last", ReasonRollbackNotFound, "", `is "last"`},
		"is refused when the revision in the annotation is negative (MCM-18)":                           {"-1", ReasonRollbackNotFound, "", `is "-1"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := w.d.DeepCopy()
			d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: tt.asked}
			p := Rollback(d, w.snapshot().Sets)
			if p == nil || p.Reason != tt.reason || !strings.Contains(p.Message, tt.says) || p.Failed != (tt.reason == ReasonRollbackNotFound) {
				t.Fatalf("Rollback() = %+v", p)
			}
			switch {
			case tt.template == "" && p.Template != nil:
				t.Errorf("Rollback() restores %+v", p.Template)
			case tt.template != "" && (p.Template.Spec.Versions.Kubelet != tt.template || p.Template.Metadata.Labels[v1alpha1.LabelTemplateHash] != ""):
				t.Errorf("Rollback() restores %+v", p.Template)
			}
		})
	}
	t.Run("is reported with the number of the previous revision when the annotation names revision 0 (F-55)", func(t *testing.T) {
		d := w.d.DeepCopy()
		d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "0"}
		if p := Rollback(d, w.snapshot().Sets); !strings.Contains(p.Message, "template of revision 3,") {
			t.Errorf("Message = %q", p.Message)
		}
		d.Spec.Template = *setOfRevision(w.snapshot().Sets, 0).Spec.Template.DeepCopy()
		if p := Rollback(d, w.snapshot().Sets); !strings.Contains(p.Message, "current template is that of revision 3 already") {
			t.Errorf("Message = %q", p.Message)
		}
	})
	t.Run("is refused when the annotation names revision 0 and there is only one revision (F-55)", func(t *testing.T) {
		alone := settled(shape{1, "1", "0"})
		alone.d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "0"}
		p := Rollback(alone.d, alone.snapshot().Sets)
		if !p.Failed || strings.Contains(p.Message, "revision 0") {
			t.Errorf("Rollback() = %+v", p)
		}
	})
	t.Run("is refused when another client has changed the template of the set of that revision (F-162)", func(t *testing.T) {
		d := w.d.DeepCopy()
		d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "2"}
		sets := w.snapshot().Sets
		for i := range sets {
			sets[i].Set = sets[i].Set.DeepCopy()
			sets[i].Set.Spec.Template.Spec.Versions.Kubelet += "-edited"
		}
		if p := Rollback(d, sets); !p.Failed || p.Template != nil || !strings.Contains(p.Message, "another client has changed it") {
			t.Errorf("Rollback() = %+v", p)
		}
	})
	t.Run("does not happen when the annotation is missing", func(t *testing.T) {
		if p := Rollback(w.d, w.snapshot().Sets); p != nil {
			t.Errorf("Rollback() = %+v", p)
		}
	})
}
