package drain

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// CrewOptions make a [Crew].
type CrewOptions struct {
	Drainer *Drainer
	Clock   clock.PassiveClock
	// Workers is how many nodes are looked at at a time. Default: 10.
	Workers int
	// Looked is told of each look that has ended, while the crew runs.
	Looked func(types.NamespacedName)
}

// Crew drains nodes with workers of its own, so that no drain holds up who asks for it (MCM-67). It remembers the last
// result of each, in memory only: after a restart the pods are looked at again. While it does not run, a look is made by
// whoever asks for it.
type Crew struct {
	CrewOptions
	queue workqueue.TypedInterface[types.UID]

	mu      sync.Mutex
	running bool
	jobs    map[types.UID]*job
}

// job is the drain of one node for one Machine.
type job struct {
	key    types.NamespacedName
	order  Order
	memory *ledger
	// queued: a worker will look, or is looking.
	queued bool
	looked bool
	at     time.Time
	result Result
	err    error
}

// NewCrew makes a Crew that does not run yet.
func NewCrew(o CrewOptions) *Crew {
	if o.Workers == 0 {
		o.Workers = 10
	}
	return &Crew{CrewOptions: o, queue: workqueue.NewTyped[types.UID](), jobs: map[types.UID]*job{}}
}

// NeedLeaderElection is true: only the leader may evict.
func (c *Crew) NeedLeaderElection() bool { return true }

// Start works until ctx ends.
func (c *Crew) Start(ctx context.Context) error {
	c.setRunning(true)
	var workers sync.WaitGroup
	for range c.Workers {
		workers.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.setRunning(false)
	c.queue.ShutDown()
	workers.Wait()
	return nil
}

func (c *Crew) setRunning(running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = running
}

func (c *Crew) work(ctx context.Context) {
	for {
		uid, down := c.queue.Get()
		if down {
			return
		}
		if key, ok := c.look(ctx, uid); ok {
			c.Looked(key)
		}
		c.queue.Done(uid)
	}
}

// Errand is a drain that somebody wants.
type Errand struct {
	// Machine is told when a look has ended; UID is what its results are kept under.
	Machine types.NamespacedName
	UID     types.UID
	Order   Order
	// Every is how long a result is good for.
	Every time.Duration
}

// Look gives the last result of a drain, and has another look made when that is older than Every or the order has changed.
// known is false while there is none yet.
func (c *Crew) Look(ctx context.Context, e Errand) (result Result, known bool, err error) {
	if c.ask(e) {
		c.look(ctx, e.UID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[e.UID]
	if !j.looked {
		return Result{}, false, nil
	}
	return j.result, true, j.err
}

// ask notes what is wanted. It returns true when the caller has to look himself.
func (c *Crew) ask(e Errand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, ok := c.jobs[e.UID]
	if !ok {
		j = &job{key: e.Machine, memory: newLedger()}
		c.jobs[e.UID] = j
	}
	changed := !reflect.DeepEqual(j.order, e.Order)
	j.order = e.Order
	if j.queued || j.looked && !changed && c.Clock.Since(j.at) < e.Every {
		return false
	}
	j.queued = true
	if c.running {
		c.queue.Add(e.UID)
	}
	return !c.running
}

// look makes one pass. Of one node there is only one at a time.
func (c *Crew) look(ctx context.Context, uid types.UID) (types.NamespacedName, bool) {
	c.mu.Lock()
	j, ok := c.jobs[uid]
	if !ok {
		c.mu.Unlock()
		return types.NamespacedName{}, false
	}
	order, memory := j.order, j.memory
	c.mu.Unlock()
	now := c.Clock.Now()
	result, err := c.Drainer.pass(ctx, order, memory, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	j.result, j.err, j.at, j.queued, j.looked = result, err, now, false, true
	return j.key, true
}

// Forget drops what is remembered of a drain that is over.
func (c *Crew) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, uid)
}
