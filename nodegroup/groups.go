package nodegroup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/resize"
)

const (
	// rebuildEvery bounds how often events make a new snapshot, and rebuildShare the time that this takes: of one core,
	// at most one part in so many.
	rebuildEvery = 20 * time.Millisecond
	rebuildShare = 4
	// snapshotAge is how often a snapshot is made without an event: time alone changes answers, since some errors are shown
	// only after a time (CA-C47).
	snapshotAge = 5 * time.Second
)

// Options are the dependencies and settings of Groups.
type Options struct {
	// Control is where MachineDeployments, MachineSets and Machines live.
	Control cluster.Cluster
	// Target is where the Nodes live; Control when it is one cluster.
	Target cluster.Cluster
	// Clock is the clock. Default: the real one.
	Clock clock.WithTicker
	// Discovery says which objects may be node groups.
	Discovery model.Discovery
	// Reach knows whether the API servers answer, without which Refresh and changes are refused, and whether a replica leads: when
	// none has for a minute, increases are refused, because nobody would carry them out. The caller runs it. Default: one without a
	// lease, which Start runs.
	Reach *reach.Watch
	// Elected is closed once this replica leads: it alone records Events with warnings about an object. Default: it leads.
	Elected <-chan struct{}
	// Prices names a ConfigMap with prices. Default: there are none.
	Prices types.NamespacedName
	// RestartGuard keeps an autoscaler that has just started from ordering again what is awaited already: until that has
	// come, for at most this time, the maximum of such a group is its size. Default: off.
	RestartGuard time.Duration
	// StartupTaint is the key of the taint that a node loses before it takes pods. Default: there is none.
	StartupTaint string
	// ZeroOrMax passes the annotation zeroormaxnodescaling on to the autoscaler. Default: it is ignored.
	ZeroOrMax bool
	// JoinTimeout is how long a server may take to become a node.
	JoinTimeout time.Duration
	// GPULabel is the key of the node label with the type of GPU. Default: there is none.
	GPULabel string
	// Registry registers the metrics. Default: they are registered nowhere.
	Registry prometheus.Registerer
}

// Groups are the node groups of a cluster. All methods may be called at the same time. Reads are answered from memory;
// writes of one group come one after the other, those of several side by side.
type Groups struct {
	options   Options
	source    source
	store     *store
	freshness *freshness
	sizes     *sizes
	live      liveReader
	writer    *writer
	advisor   *advisor
	prices    *prices
	metrics   *metrics
	synced    chan struct{}
	// reach is run together with the groups; nil when the caller runs it.
	reach *reach.Watch
}

// parts are the parts of the outside world that Groups use.
type parts struct {
	source source
	// live reads objects of the control cluster from its API server, nodes those of the target cluster.
	live, nodes client.Reader
	writer      client.Client
	recorder    events.EventRecorder
	options     Options
}

// New returns Groups. They answer once Start has synced its caches; until then reads answer as if there were no group.
func New(o Options) *Groups {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	var own *reach.Watch
	if o.Reach == nil {
		own = reach.New(reach.Options{Control: o.Control.GetAPIReader(), Clock: o.Clock})
		o.Reach = own
	}
	g := newGroups(parts{
		source:   &caches{control: o.Control.GetCache(), target: o.Target.GetCache()},
		live:     o.Control.GetAPIReader(),
		nodes:    o.Target.GetAPIReader(),
		writer:   o.Control.GetClient(),
		recorder: o.Control.GetEventRecorder(resize.Manager),
		options:  o,
	})
	g.reach = own
	return g
}

func newGroups(p parts) *Groups {
	o := p.options
	rules := model.Rules{Discovery: o.Discovery, StartupTaint: o.StartupTaint, ZeroOrMax: o.ZeroOrMax, JoinTimeout: o.JoinTimeout}
	metrics := newMetrics()
	store := newStore(rules, o.Clock, metrics.unsound)
	metrics.register(o.Registry, store)
	fresh := newFreshness(p, store)
	sizes := &sizes{live: p.live, clock: o.Clock, store: store, freshness: fresh, bareSets: o.Discovery.BareSets, turn: make(chan struct{}, 1)}
	return &Groups{
		options: o, source: p.source, store: store, freshness: fresh, sizes: sizes,
		live: liveReader{control: p.live, target: p.nodes, startupTaint: o.StartupTaint, cloud: o.Discovery.Cloud},
		writer: &writer{
			client: p.writer, live: p.live, clock: o.Clock, recorder: p.recorder, metrics: metrics,
			store: store, freshness: fresh, sizes: sizes,
		},
		advisor: &advisor{recorder: p.recorder, elected: o.Elected, join: o.JoinTimeout},
		prices:  &prices{live: p.live, configMap: o.Prices},
		metrics: metrics,
		synced:  make(chan struct{}),
	}
}

// NeedLeaderElection reports that every replica serves, not only the leader.
func (g *Groups) NeedLeaderElection() bool { return false }

// Synced is closed once the caches hold everything and the first snapshot is made.
func (g *Groups) Synced() <-chan struct{} { return g.synced }

// Started notes that an autoscaler has just started. It does not know what its predecessor ordered, and from release 1.36 on
// orders again for the same pods. With the guard, groups in which something is awaited do not look as if they could grow,
// until that has come or failed; pods that need more wait as long.
func (g *Groups) Started() {
	if g.options.RestartGuard > 0 {
		g.store.guard(g.options.RestartGuard)
	}
}

// Connected notes that a client has connected, and returns when the sizes have been read from the API server itself, or that
// has failed, within some seconds. Its first call should be answered after that.
func (g *Groups) Connected(ctx context.Context) { g.sizes.connected(ctx) }

// Start syncs the caches and follows them until ctx ends.
func (g *Groups) Start(ctx context.Context) error {
	if err := g.source.start(ctx, g.store.inbox.put); err != nil {
		return fmt.Errorf("watching node groups: %w", err)
	}
	g.options.Reach.AnsweredControl()
	g.options.Reach.AnsweredTarget()
	g.prices.read(ctx)
	if err := g.store.renew(true); err != nil {
		return err
	}
	close(g.synced)
	var running sync.WaitGroup
	running.Go(func() { g.follow(ctx) })
	running.Go(func() { g.probe(ctx) })
	if g.reach != nil {
		running.Go(func() { _ = g.reach.Start(ctx) })
	}
	running.Wait()
	return nil
}

// follow makes a new snapshot after events, not more often than rebuildEvery and rebuildShare allow, and once in snapshotAge
// without any.
func (g *Groups) follow(ctx context.Context) {
	pause := g.options.Clock.NewTimer(rebuildEvery)
	defer pause.Stop()
	tick := g.options.Clock.NewTicker(snapshotAge)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.store.inbox.bell:
		case <-tick.C():
		}
		began := g.options.Clock.Now()
		// An error is returned by the next Refresh, which comes here too.
		_ = g.store.renew(false)
		g.advisor.advise(g.store.published())
		took := g.options.Clock.Since(began)
		g.metrics.built(took)
		pause.Reset(max(rebuildEvery, rebuildShare*took))
		select {
		case <-ctx.Done():
			return
		case <-pause.C():
		}
	}
}

// probe looks, once in probeEvery, whether the watches bring what the API server has, reads the prices, and drops the metrics of
// groups that are gone.
func (g *Groups) probe(ctx context.Context) {
	tick := g.options.Clock.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		g.probeOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (g *Groups) probeOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	g.freshness.probe(ctx)
	g.prices.read(ctx)
	g.metrics.sweep(g.store.published().Groups, g.options.Clock.Now())
}
