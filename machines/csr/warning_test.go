package csr

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAWarningAboutAMachineIsNotRepeatedWithinTenMinutes(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	w := &warned{last: map[types.UID]time.Time{}}
	for n := range 10_000 {
		if !w.due(types.UID(fmt.Sprint(n)), noon) {
			t.Fatal("the first warning is not due")
		}
	}
	t.Run("a second warning about a Machine is due ten minutes after the first", func(t *testing.T) {
		if w.due("0", noon.Add(warnEvery-time.Second)) || !w.due("0", noon.Add(warnEvery)) {
			t.Error("a warning is due too early, or not at all")
		}
	})
	t.Run("the time of a Machine's last warning is deleted from memory when the next warning is allowed (F-12)", func(t *testing.T) {
		w.sweep(noon.Add(warnEvery + time.Minute))
		if len(w.last) != 1 {
			t.Errorf("%d entries, want that of the last warning", len(w.last))
		}
	})
}
