package rollout

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestASmallerSizeUnderOnDelete(t *testing.T) {
	t.Run("MC-28 takes old Machines first: 9 old and 3 current, 12 to 6, keeps the current ones (F-30)", func(t *testing.T) {
		w := settled(shape{12, "1", "0"})
		w.d.Spec.Strategy.Type = v1alpha1.OnDelete
		w.template("B")
		for range 3 {
			w.delete(w.first("A"))
		}
		w.settle(&strings.Builder{})
		if got := w.sizes(); got != "[A=9 B=3]" {
			t.Fatalf("the sizes are %s", got)
		}
		w.scale(6)
		w.settle(&strings.Builder{})
		if got := w.sizes(); got != "[A=3 B=3]" {
			t.Errorf("the sizes are %s, want [A=3 B=3]", got)
		}
	})
}
