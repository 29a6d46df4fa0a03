package nodegroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Manager is the field manager of every write of this package.
const Manager = "drover-nodegroup"

const (
	// listingAge is how long a set of listed groups stays when nobody refreshes it.
	listingAge = time.Minute
	// rebuildEvery bounds how often events make a new snapshot, and rebuildShare the time that this takes: of one core,
	// at most one part in so many.
	rebuildEvery = 20 * time.Millisecond
	rebuildShare = 4
	// snapshotAge is how often it is looked whether time alone has changed an answer: errors are shown after a time
	// (CA-C47).
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
	// Discovery says which objects may be node groups.
	Discovery Discovery
	// Lease names the lease that a leader among the replicas holds: when nobody has held it for a minute, orders are
	// refused, because nobody would carry them out. Empty: there is no such lease.
	Lease types.NamespacedName
	// Elected is closed once this replica leads: it alone tells people what is wrong with an object. Nil: it leads.
	Elected <-chan struct{}
	// Prices names a ConfigMap with prices. Empty: there are none.
	Prices types.NamespacedName
	// RestartGuard keeps an autoscaler that has just started from ordering again what is awaited already: until that has
	// come, for at most this time, the maximum of such a group is its size. 0: off.
	RestartGuard time.Duration
	// StartupTaint is the key of the taint that a node loses before it takes pods; empty: there is none.
	StartupTaint string
	// ZeroOrMax lets the annotation zeroormaxnodescaling through to the autoscaler.
	ZeroOrMax bool
	// JoinTimeout is how long a server may take to become a node.
	JoinTimeout time.Duration
	// GPULabel is the key of the node label that tells the type of GPU.
	GPULabel string
	// Registry takes the metrics. Nil: they are kept nowhere.
	Registry prometheus.Registerer
}

// Groups are the node groups of a cluster. All methods may be called at the same time. Reads are answered from memory;
// writes of one group come one after the other, those of several side by side.
type Groups struct {
	parts
	metrics *measures

	view   atomic.Pointer[view]
	prices atomic.Pointer[Prices]
	// priceError is what is wrong with the prices, provision the time that an autoscaler waits for a node, in nanoseconds; 0
	// while no autoscaler has said it.
	priceError atomic.Pointer[string]
	provision  atomic.Int64
	contact    contact
	lag        lag
	locks      locks
	orders     orders
	inbox      inbox
	catching   catchUp
	synced     chan struct{}

	// mu guards what follows and the making of views. It is not held during I/O.
	mu sync.Mutex
	// model is the newest snapshot, sound or not; the view has the newest sound one.
	model *Snapshot
	own   map[string]written
	// guarded are the ids of groups that are kept from growing, with the time when that ends.
	guarded map[string]*guard
	// advised holds what people were last told about an object. Only follow looks at it.
	advised map[types.UID]map[advice]bool
}

// New makes Groups. They answer once Start has synced its caches; until then reads answer as if there were no group.
func New(o Options) *Groups {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return newGroups(parts{
		source:   &caches{control: o.Control.GetCache(), target: o.Target.GetCache()},
		live:     o.Control.GetAPIReader(),
		nodes:    o.Target.GetAPIReader(),
		writer:   o.Control.GetClient(),
		recorder: o.Control.GetEventRecorder("drover-nodegroup"),
		clock:    o.Clock,
		options:  o,
	})
}

// parts are what Groups need of the world.
type parts struct {
	source source
	// live reads objects of the control cluster from its API server, nodes those of the target cluster.
	live, nodes client.Reader
	writer      client.Client
	recorder    events.EventRecorder
	clock       clock.WithTicker
	options     Options
}

func newGroups(p parts) *Groups {
	g := &Groups{
		parts:    p,
		inbox:    inbox{bell: make(chan struct{}, 1)},
		catching: catchUp{turn: make(chan struct{}, 1)},
		synced:   make(chan struct{}),
		model:    empty(p.options.Discovery).configured(p.options),
		own:      map[string]written{},
		guarded:  map[string]*guard{},
		advised:  map[types.UID]map[advice]bool{},
	}
	g.metrics = newMeasures(p.options.Registry, g)
	g.view.Store(newView(g.model, time.Time{}, nil))
	return g
}

// NeedLeaderElection says that every replica serves, not only the leader.
func (g *Groups) NeedLeaderElection() bool { return false }

// Synced is closed once the caches hold everything and the first snapshot is there.
func (g *Groups) Synced() <-chan struct{} { return g.synced }

// Start syncs the caches and follows them until ctx ends.
func (g *Groups) Start(ctx context.Context) error {
	if err := g.source.start(ctx, g.inbox.put); err != nil {
		return fmt.Errorf("watching node groups: %w", err)
	}
	g.contact.made(g.clock.Now())
	g.readPrices(ctx)
	if err := g.renew(true); err != nil {
		return err
	}
	close(g.synced)
	var running sync.WaitGroup
	running.Go(func() { g.follow(ctx) })
	running.Go(func() { g.probe(ctx) })
	running.Wait()
	return nil
}

// inbox holds the events that no snapshot has seen yet.
type inbox struct {
	mu     sync.Mutex
	events []event
	bell   chan struct{}
}

func (b *inbox) put(e event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

// follow makes a new snapshot after events, not more often than it should, and looks once in snapshotAge without any.
func (g *Groups) follow(ctx context.Context) {
	pause := g.clock.NewTimer(rebuildEvery)
	defer pause.Stop()
	tick := g.clock.NewTicker(snapshotAge)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.inbox.bell:
		case <-tick.C():
		}
		began := g.clock.Now()
		// What went wrong is told by the next Refresh, which comes here too.
		_ = g.renew(false)
		g.advise()
		took := g.clock.Since(began)
		g.metrics.built(took)
		pause.Reset(max(rebuildEvery, rebuildShare*took))
		select {
		case <-ctx.Done():
			return
		case <-pause.C():
		}
	}
}

// renew makes a snapshot of what has happened, and publishes it when it is sound (CA-C115).
func (g *Groups) renew(relist bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.advance(g.settled(g.inbox.take()), relist)
}

// advance makes the next snapshot and publishes it. The caller holds mu.
func (g *Groups) advance(events []event, relist bool) error {
	now := g.clock.Now()
	g.forget(events)
	g.model = g.model.apply(events, now)
	if err := g.model.flaw; err != nil {
		g.metrics.unsound.Inc()
		return unavailable(err, "the node groups do not add up, the last sound answers stay")
	}
	if relist {
		g.view.Store(newView(g.model, now, g.guards(now)))
		return nil
	}
	g.view.Store(g.view.Load().over(g.model))
	return nil
}

// current is what reads are answered from. When nobody has refreshed for a minute, the set of groups is taken anew, as
// if somebody had just done so: no replica answers an empty list because it was not asked before.
func (g *Groups) current() *view {
	v := g.view.Load()
	if now := g.clock.Now(); now.Sub(v.listed) >= listingAge {
		g.mu.Lock()
		defer g.mu.Unlock()
		if v = g.view.Load(); now.Sub(v.listed) >= listingAge {
			v = newView(v.snapshot, now, g.guards(now))
			g.view.Store(v)
		}
	}
	return v
}
