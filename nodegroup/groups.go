package nodegroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Manager is the field manager of every write of this package.
const Manager = "drover-nodegroup"

const (
	// staleAfter is how long the API server may be out of reach before Refresh and writes are refused (CA-C13, C113).
	staleAfter = 30 * time.Second
	// probeEvery is how often the API server is asked whether it is there.
	probeEvery = 5 * time.Second
	// listingAge is how long a set of listed groups stays when nobody refreshes it.
	listingAge = time.Minute
	// rebuildEvery bounds how often events make a new snapshot, and rebuildShare the time that this takes: of one core,
	// at most one part in so many.
	rebuildEvery = 20 * time.Millisecond
	rebuildShare = 4
	// snapshotAge is how old a snapshot may get without events: errors are shown after a time (CA-C47).
	snapshotAge = 5 * time.Second
)

// Options are what Groups are made of.
type Options struct {
	// Control is where MachineDeployments, MachineSets and Machines live.
	Control cluster.Cluster
	// Target is where the Nodes live; Control when it is one cluster.
	Target cluster.Cluster
	// Clock is the time. Default: the real one.
	Clock clock.WithTicker
}

// Groups are the node groups of a cluster. All methods may be called at the same time. Reads are answered from memory;
// writes of one group come one after the other, those of several side by side.
type Groups struct {
	source   source
	live     client.Reader
	writer   client.Client
	recorder events.EventRecorder
	clock    clock.WithTicker

	view    atomic.Pointer[view]
	contact contact
	locks   locks
	dirty   chan struct{}
	synced  chan struct{}

	// mu guards what follows and the making of views. It is not held during I/O.
	mu    sync.Mutex
	stale bool
	own   map[types.NamespacedName]*v1alpha1.MachineDeployment
	seen  map[types.UID]time.Time
	built time.Time
}

// New makes Groups. They answer once Start has synced its caches; until then reads answer as if there were no group.
func New(o Options) *Groups {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return newGroups(parts{
		source:   &caches{control: o.Control.GetCache(), target: o.Target.GetCache()},
		live:     o.Control.GetAPIReader(),
		writer:   o.Control.GetClient(),
		recorder: o.Control.GetEventRecorder("drover-nodegroup"),
		clock:    o.Clock,
	})
}

// parts are what Groups need of the world.
type parts struct {
	source   source
	live     client.Reader
	writer   client.Client
	recorder events.EventRecorder
	clock    clock.WithTicker
}

func newGroups(p parts) *Groups {
	g := &Groups{
		source: p.source, live: p.live, writer: p.writer, recorder: p.recorder, clock: p.clock,
		dirty:  make(chan struct{}, 1),
		synced: make(chan struct{}),
		own:    map[types.NamespacedName]*v1alpha1.MachineDeployment{},
		seen:   map[types.UID]time.Time{},
	}
	g.view.Store(&view{snapshot: Build(Objects{})})
	return g
}

// NeedLeaderElection says that every replica serves, not only the leader.
func (g *Groups) NeedLeaderElection() bool { return false }

// Synced is closed once the caches hold everything and the first snapshot is there.
func (g *Groups) Synced() <-chan struct{} { return g.synced }

// Start syncs the caches and follows them until ctx ends.
func (g *Groups) Start(ctx context.Context) error {
	if err := g.source.start(ctx, g.touch); err != nil {
		return fmt.Errorf("watching node groups: %w", err)
	}
	g.contact.made(g.clock.Now())
	if err := g.renew(ctx, true); err != nil {
		return err
	}
	close(g.synced)
	var running sync.WaitGroup
	running.Go(func() { g.follow(ctx) })
	running.Go(func() { g.probe(ctx) })
	running.Wait()
	return nil
}

// touch notes that the caches have changed.
func (g *Groups) touch() {
	g.mu.Lock()
	g.stale = true
	g.mu.Unlock()
	select {
	case g.dirty <- struct{}{}:
	default:
	}
}

// follow makes a new snapshot after events, not more often than it should, and once in snapshotAge without any.
func (g *Groups) follow(ctx context.Context) {
	pause := g.clock.NewTimer(rebuildEvery)
	defer pause.Stop()
	tick := g.clock.NewTicker(snapshotAge)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.dirty:
		case <-tick.C():
		}
		began := g.clock.Now()
		// What went wrong is told by the next Refresh, which comes here too.
		_ = g.renew(ctx, false)
		pause.Reset(max(rebuildEvery, rebuildShare*g.clock.Since(began)))
		select {
		case <-ctx.Done():
			return
		case <-pause.C():
		}
	}
}

// probe asks the API server whether it is there.
func (g *Groups) probe(ctx context.Context) {
	tick := g.clock.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		if err := g.ping(ctx); err == nil {
			g.contact.made(g.clock.Now())
		}
	}
}

func (g *Groups) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	return g.live.List(ctx, &v1alpha1.MachineDeploymentList{}, client.Limit(1))
}

// renew makes a snapshot of the caches with our own writes laid over, and publishes it when it is sound (CA-C115).
func (g *Groups) renew(ctx context.Context, relist bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	current := g.view.Load()
	snapshot := current.snapshot
	if g.stale || g.built.IsZero() || now.Sub(g.built) >= snapshotAge {
		objects, err := g.source.objects(ctx)
		if err != nil {
			return unavailable(err, "reading the caches")
		}
		g.stale = false
		objects.Deployments = g.layOver(objects.Deployments)
		g.forget(objects.Machines)
		objects.Now, objects.Seen = now, g.seen
		built := Build(objects)
		if err := built.Check(); err != nil {
			g.stale = true
			return unavailable(err, "the node groups do not add up, the last sound answers stay")
		}
		snapshot, g.built = built, now
	}
	g.publish(current, snapshot, relist)
	return nil
}

// publish makes a view of the snapshot what reads are answered from. The caller holds mu.
func (g *Groups) publish(current *view, snapshot *Snapshot, relist bool) {
	if relist {
		g.view.Store(newView(snapshot, g.clock.Now()))
		return
	}
	g.view.Store(current.over(snapshot))
}

// current is what reads are answered from. When nobody has refreshed for a minute, the set of groups is taken anew, as
// if somebody had just done so: no replica answers an empty list because it was not asked before.
func (g *Groups) current() *view {
	v := g.view.Load()
	if now := g.clock.Now(); now.Sub(v.listed) >= listingAge {
		g.mu.Lock()
		defer g.mu.Unlock()
		if v = g.view.Load(); now.Sub(v.listed) >= listingAge {
			v = newView(v.snapshot, now)
			g.view.Store(v)
		}
	}
	return v
}
