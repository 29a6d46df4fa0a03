package ownership

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestTheThrottleDelaysFrequentWritesOfAStatus(t *testing.T) {
	var p StatusThrottle
	owner, other := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	start := time.Unix(1, 0)
	for _, step := range []struct {
		name  string
		owner types.NamespacedName
		after time.Duration
		want  time.Duration
	}{
		{"allows the first write of an object's status at once (F-57)", owner, 0, 0},
		{"delays the second write of the same object's status, 4 s after the first, until the interval of 10 s is over (F-57)", owner, 4 * time.Second, 6 * time.Second},
		{"allows the first write of another object's status at once (F-57)", other, 4 * time.Second, 0},
		{"allows the second write of the object's status when the interval of 10 s is over (F-57)", owner, 10 * time.Second, 0},
		{"delays the third write of the object's status, 1 s after the second, until another interval of 10 s is over (F-57)", owner, 11 * time.Second, 9 * time.Second},
	} {
		t.Run(step.name, func(t *testing.T) {
			if got := p.Left(step.owner, 10*time.Second, start.Add(step.after)); got != step.want {
				t.Errorf("Left() = %v, want %v", got, step.want)
			}
		})
	}
	t.Run("forgets the times of the writes of a deleted object (F-57)", func(t *testing.T) {
		p.Forget(owner)
		p.Forget(other)
		if len(p.written) != 0 {
			t.Errorf("the throttle still records %v", p.written)
		}
	})
}
