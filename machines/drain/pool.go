package drain

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// PoolOptions configure a [Pool].
type PoolOptions struct {
	Drainer *Drainer
	Clock   clock.PassiveClock
	// Workers is how many nodes are drained at the same time. Default: 10.
	Workers int
	// OnResult is called each time a round has ended while the pool runs. Its argument is the Machine of the round.
	OnResult func(types.NamespacedName)
}

// Pool drains nodes with its own workers, so that a slow drain delays neither its caller nor other drains (MCM-67). It remembers the last
// result of each drain in memory only; after a restart it starts with a new round. While the pool does not run, Drain carries out the round
// itself.
type Pool struct {
	PoolOptions
	queue workqueue.TypedInterface[types.UID]

	running atomic.Bool

	mu   sync.Mutex
	jobs map[types.UID]*job
}

// job is the drain of one node for one Machine.
type job struct {
	key    types.NamespacedName
	order  Order
	memory *memory
	// alone is true when no other node could take the pods at the first request.
	alone bool
	// queued is true while a round is waiting for a worker or is under way.
	queued bool
	known  bool
	at     time.Time
	result Result
	err    error
}

// NewPool returns a Pool that does not run yet.
func NewPool(o PoolOptions) *Pool {
	if o.Workers == 0 {
		o.Workers = 10
	}
	return &Pool{PoolOptions: o, queue: workqueue.NewTyped[types.UID](), jobs: map[types.UID]*job{}}
}

// NeedLeaderElection returns true, because only the leader may evict pods.
func (p *Pool) NeedLeaderElection() bool { return true }

// Start runs the workers until ctx ends.
func (p *Pool) Start(ctx context.Context) error {
	p.running.Store(true)
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
	// A request that found the pool running is in the queue before the queue ends.
	p.mu.Lock()
	p.running.Store(false)
	p.mu.Unlock()
	p.queue.ShutDown()
	workers.Wait()
	return nil
}

func (p *Pool) work(ctx context.Context) {
	for {
		uid, down := p.queue.Get()
		if down {
			return
		}
		if key, ok := p.drain(ctx, uid); ok {
			p.OnResult(key)
		}
		p.queue.Done(uid)
	}
}

// Request describes the drain that a caller of [Pool.Drain] wants.
type Request struct {
	// Machine is passed to OnResult when a round has ended. UID identifies the drain.
	Machine types.NamespacedName
	UID     types.UID
	Order   Order
	// Every is how long a result stays valid.
	Every time.Duration
}

// Drain returns the last result of a drain. It requests another round when that result is older than Every, or when the order has changed.
// known is false while there is no result yet.
func (p *Pool) Drain(ctx context.Context, r Request) (result Result, known bool, err error) {
	if p.request(r) {
		p.drain(ctx, r.UID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobs[r.UID]
	if !j.known {
		return Result{}, false, nil
	}
	return j.result, true, j.err
}

// request records the drain that a caller wants. It returns true when the caller must carry out the round itself.
func (p *Pool) request(r Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j, ok := p.jobs[r.UID]
	if !ok {
		j = &job{key: r.Machine, memory: newMemory(), order: r.Order, alone: r.Order.Mode.NoTarget}
		p.jobs[r.UID] = j
	}
	r.Order.Mode.NoTarget = r.Order.Mode.NoTarget || j.alone
	changed := !reflect.DeepEqual(j.order, r.Order)
	j.order = r.Order
	if j.queued || j.known && !changed && p.Clock.Since(j.at) < r.Every {
		return false
	}
	j.queued = true
	running := p.running.Load()
	if running {
		p.queue.Add(r.UID)
	}
	return !running
}

// drain carries out one round. Each node has only one round at a time.
func (p *Pool) drain(ctx context.Context, uid types.UID) (types.NamespacedName, bool) {
	p.mu.Lock()
	j, ok := p.jobs[uid]
	if !ok {
		p.mu.Unlock()
		return types.NamespacedName{}, false
	}
	order, memory := j.order, j.memory
	p.mu.Unlock()
	now := p.Clock.Now()
	result, err := p.Drainer.round(ctx, order, memory, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	j.result, j.err, j.at, j.queued, j.known = result, err, now, false, true
	return j.key, true
}

// Forget removes everything about a drain that is over.
func (p *Pool) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, uid)
}
