package world

import (
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/test/chaos/schedule"
)

// Step is a change of an object in the cluster.
type Step struct {
	// Resource is the plural name of the object's kind.
	Resource string
	// Revision is the number of the change.
	Revision uint64
	At       time.Time
}

// Trouble is what happens to drover's watches from a change on.
type Trouble struct {
	// From is the revision of that change, which is concerned too.
	From uint64
	// Resource is the plural name of the kind that the trouble is about.
	Resource string
	How      Disturbance
}

// watches keeps the changes of a world, and carries out its trouble.
type watches struct {
	world   *World
	trouble *Trouble
	// started is closed when the trouble begins.
	started chan struct{}

	mu    sync.Mutex
	begun time.Time
	steps []Step
}

func newWatches(w *World, t *Trouble) *watches {
	return &watches{world: w, trouble: t, started: make(chan struct{})}
}

// changed takes in a change, and begins the trouble with it.
func (o *watches) changed(resource string, revision uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, Step{Resource: resource, Revision: revision, At: time.Now()})
	if o.trouble != nil && o.trouble.From == revision {
		o.begun = time.Now()
		close(o.started)
	}
}

// lag returns how much later than usual a watch of drover's shows a change.
func (o *watches) lag(resource string, written time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun.IsZero() || written.Before(o.begun) || o.trouble.How.lag == nil {
		return 0
	}
	return max(0, o.trouble.How.lag(o.trouble.Resource, resource, written.Sub(o.begun)))
}

// run does to the watches what the trouble does to them at once, and not to single changes.
func (o *watches) run() {
	if o.trouble == nil || o.trouble.How.strike == nil {
		return
	}
	select {
	case <-o.started:
	case <-o.world.Context.Done():
		return
	}
	if !schedule.Sleep(o.world.Context, o.trouble.How.after) || o.world.Scheduler.Await(o.world.Context, "trouble", schedule.Alone) != nil {
		return
	}
	o.trouble.How.strike(o.world, o.trouble.Resource)
}

// Steps returns the changes after a revision, in order.
func (w *World) Steps(after uint64) []Step {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.watches.steps), func(s Step) bool { return s.Revision <= after })
}

// Troubled reports whether the world's trouble has begun.
func (w *World) Troubled() bool {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return !w.watches.begun.IsZero()
}
