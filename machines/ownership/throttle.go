package ownership

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Pace spreads the writes of a status that changes with every Machine: an owner that makes or loses one Machine after the
// other writes what it came to, not each step. The zero value is ready for use.
type Pace struct {
	mu      sync.Mutex
	written map[types.NamespacedName]time.Time
}

// Left returns how long the next write of an owner must wait, so that every passes between two of its writes. 0: the write may
// be made, and Left records now as its time.
func (p *Pace) Left(owner types.NamespacedName, every time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.written[owner]; ok && now.Sub(last) < every {
		return every - now.Sub(last)
	}
	if p.written == nil {
		p.written = map[types.NamespacedName]time.Time{}
	}
	p.written[owner] = now
	return 0
}

// Soonest returns the shorter of two waits. A wait of 0 or less is none; it returns 0 when both are none.
func Soonest(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}

// Forget drops what is remembered of an owner that is gone.
func (p *Pace) Forget(owner types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, owner)
}
