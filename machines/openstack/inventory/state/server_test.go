package state

import (
	"testing"
	"time"
)

func TestTheBackOffBetweenDeleteRequestsForTheSameServerDoublesUpToFiveMinutes(t *testing.T) {
	for times, want := range map[int]time.Duration{1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 5: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := deletionBackoff(times); got != want {
			t.Errorf("MC-64: after %d: %s, want %s", times, got, want)
		}
	}
}
