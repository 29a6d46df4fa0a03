package csr

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWarned(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	w := &warned{last: map[types.UID]time.Time{}}
	for n := range 10_000 {
		if !w.due(types.UID(fmt.Sprint(n)), noon) {
			t.Fatal("the first warning is not due")
		}
	}
	t.Run("a Machine is warned once in ten minutes", func(t *testing.T) {
		if w.due("0", noon.Add(warnEvery-time.Second)) || !w.due("0", noon.Add(warnEvery)) {
			t.Error("a warning is due too early, or not at all")
		}
	})
	t.Run("what is held of Machines that were warned ends (F-12)", func(t *testing.T) {
		w.sweep(noon.Add(warnEvery + time.Minute))
		if len(w.last) != 1 {
			t.Errorf("%d entries, want that of the last warning", len(w.last))
		}
	})
}
