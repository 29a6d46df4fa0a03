package ownership

import "time"

// StatusThrottle limits how often the status of one owner is written, so that one write covers several changes when the owner creates or
// loses Machines one after the other. The zero value is ready for use.
type StatusThrottle struct {
	written time.Time
}

// Left returns how long the next write of the owner's status must wait, so that at least the given interval (every) passes between two
// writes. When Left returns 0, the caller may write, and Left records now as the time of that write.
func (t *StatusThrottle) Left(every time.Duration, now time.Time) time.Duration {
	if !t.written.IsZero() && now.Sub(t.written) < every {
		return every - now.Sub(t.written)
	}
	t.written = now
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
