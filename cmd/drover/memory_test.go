package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestUnusedMemoryIsReturnedToTheOperatingSystem(t *testing.T) {
	const mega = 1 << 20
	for _, tt := range []struct {
		name          string
		inUse, mapped uint64
		trims         int
	}{
		{"nothing is returned when a quarter of drover's memory is unused", 20 * mega, 27 * mega, 0},
		{"unused memory is returned each minute when a third of drover's memory is unused", 20 * mega, 31 * mega, 3},
		{"nothing is returned when drover has mapped only 11 MiB, although most of this memory is unused", 4 * mega, 11 * mega, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trims := 0
				h := &trimmer{
					clock: clock.RealClock{},
					held:  func() (uint64, uint64) { return tt.inUse, tt.mapped },
					trim:  func() { trims++ },
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
				defer cancel()
				if err := h.Start(ctx); err != nil {
					t.Fatal(err)
				}
				if trims != tt.trims {
					t.Errorf("memory was given back %d times in three minutes, want %d", trims, tt.trims)
				}
			})
		})
	}
}

func TestTheHeapThatDroverUsesIsNeverMeasuredAsLargerThanTheHeapThatItHasMapped(t *testing.T) {
	if inUse, mapped := held(); inUse == 0 || mapped < inUse {
		t.Errorf("in use %d, mapped %d", inUse, mapped)
	}
}
