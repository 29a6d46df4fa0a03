package process

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Point is a fault point: before or after one call of a process.
type Point struct {
	// Call is the name of the call. Nth is its number among the calls of that name since the start of the process, counted from
	// 1.
	Call string
	Nth  int
	// After is true when the call is carried out and its response is lost; otherwise the call is never sent.
	After bool
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	return fmt.Sprintf("%s %s #%d", when, p.Call, p.Nth)
}

// errDead is the error of every call of a process that has died.
var errDead = errors.New("this process is dead")

// life is the state of a process that its transports to the cloud and to the cluster share: the process's calls, and whether it is
// alive.
type life struct {
	// crash is the call at which the process dies; nil when it does not die. When stale is set, the process only loses its lease at that
	// call. When stop is set, it ends there as after SIGTERM.
	crash *Point
	stale *StaleLeader
	stop  func()
	lease lease
	// over is closed when another process has to take over.
	over chan struct{}

	mu    sync.Mutex
	calls []Point
	count map[string]int
	// dead is true once the process makes no calls any more. lost is true once the process has lost its lease; it may still run.
	dead, lost bool
	// left is the number of calls until the fault point, which is before the last of them, or after it if late is true. 0 means that
	// the fault point does not depend on the number of calls.
	left int
	late bool
}

func newLife(o Options) *life {
	return &life{crash: o.Crash, stale: o.Stale, left: o.Calls, over: make(chan struct{}), count: map[string]int{}}
}

// begin records a call that is about to be sent. It returns an error when the process is dead.
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
			l.crash = &Point{Call: p.Call, Nth: p.Nth, After: l.late}
		}
	}
	l.reach(p)
	if l.dead {
		return p, errDead
	}
	return p, nil
}

// endAfter sets the fault point: before, or after, the nth call from now on.
func (l *life) endAfter(n int, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.late = n, after
}

// reach ends the process, or takes its lease away, when p is the fault point.
func (l *life) reach(p Point) {
	switch {
	case l.crash == nil || *l.crash != p:
	case l.stop != nil:
		l.crash = nil
		l.stop()
	case l.stale == nil:
		l.dieLocked()
	default:
		// The last renewal was up to two seconds ago: how long ago depends on the number of calls, so that runs differ.
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

// diedAt reports whether the process is dead and p is the fault point at which it died.
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
