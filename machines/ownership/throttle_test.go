package ownership

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestPace(t *testing.T) {
	var p Pace
	owner, other := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	start := time.Unix(1, 0)
	for _, step := range []struct {
		name  string
		owner types.NamespacedName
		after time.Duration
		want  time.Duration
	}{
		{"the first write is made at once (F-57)", owner, 0, 0},
		{"the next waits for the rest of the pace (F-57)", owner, 4 * time.Second, 6 * time.Second},
		{"another owner has a pace of its own (F-57)", other, 4 * time.Second, 0},
		{"it is made when it is time (F-57)", owner, 10 * time.Second, 0},
		{"and the next waits again (F-57)", owner, 11 * time.Second, 9 * time.Second},
	} {
		t.Run(step.name, func(t *testing.T) {
			if got := p.Left(step.owner, 10*time.Second, start.Add(step.after)); got != step.want {
				t.Errorf("%v left, want %v", got, step.want)
			}
		})
	}
	t.Run("an owner that is gone leaves nothing behind (F-57)", func(t *testing.T) {
		p.Forget(owner)
		p.Forget(other)
		if len(p.written) != 0 {
			t.Errorf("%v is remembered", p.written)
		}
	})
}
