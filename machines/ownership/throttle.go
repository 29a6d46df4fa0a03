package ownership

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// StatusThrottle limits how often the status of an owner is written, so that one write covers several changes when an owner creates or
// loses Machines one after the other. The zero value is ready for use.
type StatusThrottle struct {
	mu      sync.Mutex
	written map[types.NamespacedName]time.Time
}

// Left returns how long the next write of an owner's status must wait, so that at least the given interval (every) passes between two
// writes. When Left returns 0, the caller may write, and Left records now as the time of that write.
func (t *StatusThrottle) Left(owner types.NamespacedName, every time.Duration, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.written[owner]; ok && now.Sub(last) < every {
		return every - now.Sub(last)
	}
	if t.written == nil {
		t.written = map[types.NamespacedName]time.Time{}
	}
	t.written[owner] = now
	return 0
}

// Soonest returns the shorter of two waits. A wait of 0 or less means that there is none. Soonest returns 0 when neither wait exists.
func Soonest(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}

// Forget removes what is stored about an owner that is gone.
func (t *StatusThrottle) Forget(owner types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.written, owner)
}
