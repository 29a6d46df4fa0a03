package ownership

import (
	"testing"
	"time"
)

func TestTheThrottleDelaysFrequentWritesOfAStatus(t *testing.T) {
	var p StatusThrottle
	start := time.Unix(1, 0)
	for _, step := range []struct {
		name  string
		after time.Duration
		want  time.Duration
	}{
		{"allows the first write of an object's status at once (F-57)", 0, 0},
		{"delays the second write of the object's status, 4 s after the first, until the interval of 10 s is over (F-57)", 4 * time.Second, 6 * time.Second},
		{"allows the second write of the object's status when the interval of 10 s is over (F-57)", 10 * time.Second, 0},
		{"delays the third write of the object's status, 1 s after the second, until another interval of 10 s is over (F-57)", 11 * time.Second, 9 * time.Second},
	} {
		t.Run(step.name, func(t *testing.T) {
			if got := p.Left(10*time.Second, start.Add(step.after)); got != step.want {
				t.Errorf("Left() = %v, want %v", got, step.want)
			}
		})
	}
}
