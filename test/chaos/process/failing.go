package process

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/test/chaos/calls"
)

// Failing makes calls of a process fail while the process continues. A process that starts later may share the
// Failing.
type Failing struct {
	// At is the first call that fails. At.After is ignored.
	At Point
	// How is the way in which the call fails.
	How Failure

	mu    sync.Mutex
	begun time.Time
	over  bool
	hits  int
}

// answer returns the function that answers a call; ok is false when the call does not fail.
func (f *Failing) answer(p Point, c call) (answered func() (*http.Response, error), ok bool) {
	if f == nil {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
		return nil, false
	case f.begun.IsZero():
		if p != f.At {
			return nil, false
		}
		f.begun = time.Now()
	case !f.How.Lasting || !f.concerns(p.Call):
		return nil, false
	}
	f.hits++
	return func() (*http.Response, error) { return f.How.answer(c) }, true
}

// concerns reports whether a lasting failure also applies to calls with this name.
func (f *Failing) concerns(name string) bool {
	switch f.How.scope {
	case sameCall:
		return name == f.At.Call
	case wholeCloud:
		return !calls.IsKube(name)
	case sameService:
		return service(name) == service(f.At.Call)
	}
	return false
}

// service returns the part of a call's name that identifies the API.
func service(name string) string {
	target, rest, _ := strings.Cut(name, " ")
	if calls.IsKube(name) {
		return target
	}
	_, path, _ := strings.Cut(rest, " /")
	first, _, _ := strings.Cut(path, "/")
	return target + " " + first
}

// Begun returns the time at which the first call failed, or zero if none has.
func (f *Failing) Begun() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

// Heal ends a lasting failure. It reports whether the failure was still lasting.
func (f *Failing) Heal() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	healed := f.How.Lasting && !f.over && !f.begun.IsZero()
	f.over = true
	return healed
}
