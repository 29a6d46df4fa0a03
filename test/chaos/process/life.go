package process

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Point is a fault point: before or after one of a process's calls.
type Point struct {
	// Call is the call's name, Nth is which of that name, counted from 1 from the start of the process.
	Call string
	Nth  int
	// After: the call is carried out, and its answer is never seen. Else it is never made.
	After bool
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	return fmt.Sprintf("%s %s #%d", when, p.Call, p.Nth)
}

// errDead is what every call of a process returns once it has died.
var errDead = errors.New("this process is dead")

// life is what the two transports of one process share: the calls that were made, and whether the process still lives.
type life struct {
	// crash is where it dies; nil: nowhere. stale: it only loses its lease there.
	crash *Point
	stale *StaleLeader
	lease lease
	// over is closed when another process has to take over.
	over chan struct{}

	mu    sync.Mutex
	calls []Point
	count map[string]int
	// dead: it does nothing any more. lost: it has no lease, and goes on.
	dead, lost bool
	// left is how many calls it makes before it dies; 0: no number is set.
	left int
}

func newLife(o Options) *life {
	return &life{crash: o.Crash, stale: o.Stale, left: o.Calls, over: make(chan struct{}), count: map[string]int{}}
}

// begin records a call that is about to be made. It returns an error when the process is dead.
func (l *life) begin(name string) (Point, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return Point{}, errDead
	}
	l.count[name]++
	p := Point{Call: name, Nth: l.count[name]}
	l.calls = append(l.calls, p)
	if l.left > 0 {
		if l.left--; l.left == 0 {
			l.dieLocked()
		}
	}
	l.reach(p)
	if l.dead {
		return p, errDead
	}
	return p, nil
}

// reach kills the process, or takes its lease away, when p is its fault point.
func (l *life) reach(p Point) {
	switch {
	case l.crash == nil || *l.crash != p:
	case l.stale == nil:
		l.dieLocked()
	default:
		// The last renewal was any time of the last two seconds ago.
		l.lease.lose(l.stale, time.Duration(len(l.calls)%10)*leaseRetry/10)
		close(l.over)
		l.crash, l.lost = nil, true
	}
}

// finish records that a call was carried out. It returns an error when the process is dead.
func (l *life) finish(p Point) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.After = true
	l.reach(p)
	if l.dead {
		return errDead
	}
	return nil
}

// diedAt reports whether the process was to die before this very call, and did.
func (l *life) diedAt(p Point) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead && l.crash != nil && *l.crash == p
}

func (l *life) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dieLocked()
}

func (l *life) dieLocked() {
	if !l.dead && !l.lost {
		close(l.over)
	}
	l.dead = true
}

func (l *life) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *life) made() []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}
