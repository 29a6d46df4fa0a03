package rollout

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestRollback(t *testing.T) {
	w := settled(shape{1, "1", "0"})
	limit := int32(10)
	w.d.Spec.RevisionHistoryLimit = &limit
	for _, name := range []string{"B", "C", "A"} {
		w.template(name)
		w.settle(&strings.Builder{})
	}
	// A came back: it has revision 4 now, and 1 in its history; B has 2, C has 3.
	tests := map[string]struct {
		asked, reason, template, says string
	}{
		"MCM-18 the named revision":                       {"2", ReasonRollback, "B", "from set"},
		"MCM-18 0 is the revision before":                 {"0", ReasonRollback, "C", "from set"},
		"MCM-18 a revision in the history of the present": {"1", ReasonRollbackUnchanged, "", "already"},
		"MCM-18 an unknown revision is refused":           {"9", ReasonRollbackNotFound, "", "there are 2, 3, 4"},
		"MCM-18 a word is refused":                        {"last", ReasonRollbackNotFound, "", `is "last"`},
		"MCM-18 a negative one is refused":                {"-1", ReasonRollbackNotFound, "", `is "-1"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := w.d.DeepCopy()
			d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: tt.asked}
			p := Rollback(d, w.snapshot().Sets)
			if p == nil || p.Reason != tt.reason || !strings.Contains(p.Message, tt.says) || p.Failed != (tt.reason == ReasonRollbackNotFound) {
				t.Fatalf("got %+v", p)
			}
			switch {
			case tt.template == "" && p.Template != nil:
				t.Errorf("puts back %+v", p.Template)
			case tt.template != "" && (p.Template.Spec.Versions.Kubelet != tt.template || p.Template.Metadata.Labels[v1alpha1.LabelTemplateHash] != ""):
				t.Errorf("puts back %+v", p.Template)
			}
		})
	}
	t.Run("0 is told as the number of the revision that it stands for (F-55)", func(t *testing.T) {
		d := w.d.DeepCopy()
		d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "0"}
		if p := Rollback(d, w.snapshot().Sets); !strings.Contains(p.Message, "template of revision 3,") {
			t.Errorf("says %q", p.Message)
		}
		d.Spec.Template = *setOfRevision(w.snapshot().Sets, 0).Spec.Template.DeepCopy()
		if p := Rollback(d, w.snapshot().Sets); !strings.Contains(p.Message, "current template is that of revision 3 already") {
			t.Errorf("says %q", p.Message)
		}
	})
	t.Run("0 without an earlier revision names no revision 0 (F-55)", func(t *testing.T) {
		alone := settled(shape{1, "1", "0"})
		alone.d.Annotations = map[string]string{v1alpha1.AnnotationRollbackTo: "0"}
		p := Rollback(alone.d, alone.snapshot().Sets)
		if !p.Failed || strings.Contains(p.Message, "revision 0") {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("without the annotation nothing happens", func(t *testing.T) {
		if p := Rollback(w.d, w.snapshot().Sets); p != nil {
			t.Errorf("got %+v", p)
		}
	})
}
