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
	// Revision is the resource version of the change.
	Revision uint64
	At       time.Time
}

// DisturbedWatch disturbs drover's watches, starting with a given change.
type DisturbedWatch struct {
	// From is the revision of the change with which the disturbance begins.
	From uint64
	// Resource is the plural name of the kind of objects that the disturbance concerns. Some disturbances affect the
	// watches of every kind except this one.
	Resource string
	How      Disturbance
}

// watches records the changes of a world, and disturbs the watches.
type watches struct {
	world     *World
	disturbed *DisturbedWatch
	// started is closed when the disturbance begins.
	started chan struct{}

	mu    sync.Mutex
	begun time.Time
	steps []Step
}

func newWatches(w *World, t *DisturbedWatch) *watches {
	return &watches{world: w, disturbed: t, started: make(chan struct{})}
}

// changed records a change of an object, and begins the disturbance if it is configured to begin with this change.
func (o *watches) changed(resource string, revision uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, Step{Resource: resource, Revision: revision, At: time.Now()})
	if o.disturbed != nil && o.disturbed.From == revision {
		o.begun = time.Now()
		close(o.started)
	}
}

// lag returns how much later than usual drover's watches deliver the event of a change.
func (o *watches) lag(resource string, written time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun.IsZero() || written.Before(o.begun) || o.disturbed.How.lag == nil {
		return 0
	}
	return max(0, o.disturbed.How.lag(o.disturbed.Resource, resource, written.Sub(o.begun)))
}

// run carries out the disturbance's action, such as ending watches, when the action is due. It does nothing when the
// disturbance has no action and only delays events.
func (o *watches) run() {
	if o.disturbed == nil || o.disturbed.How.disturb == nil {
		return
	}
	select {
	case <-o.started:
	case <-o.world.Context.Done():
		return
	}
	if !schedule.Sleep(o.world.Context, o.disturbed.How.after) || o.world.Scheduler.Await(o.world.Context, "watches are disturbed", schedule.Alone) != nil {
		return
	}
	o.disturbed.How.disturb(o.world, o.disturbed.Resource)
}

// Steps returns the changes after a revision, in order.
func (w *World) Steps(after uint64) []Step {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.watches.steps), func(s Step) bool { return s.Revision <= after })
}

// DisturbanceBegan reports whether the disturbance of the watches has begun.
func (w *World) DisturbanceBegan() bool {
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	return !w.watches.begun.IsZero()
}
