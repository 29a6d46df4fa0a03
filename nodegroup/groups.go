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
)

const (
	// rebuildEvery is the shortest time between two snapshots that are made because of events. rebuildShare limits the processor
	// time for making these snapshots to 1/rebuildShare of one core.
	rebuildEvery = 20 * time.Millisecond
	rebuildShare = 4
	// snapshotAge is the age at which the snapshot is replaced even without an event, because the answers also change with time:
	// some errors are shown only after a delay (CA-C47).
	snapshotAge = 5 * time.Second
)

// Options are the dependencies and settings of Groups.
type Options struct {
	// Control is the cluster of the MachineDeployments, MachineSets and Machines.
	Control cluster.Cluster
	// Target is the cluster of the Nodes. It equals Control when there is only one cluster.
	Target cluster.Cluster
	// Clock is the clock. Default: the real one.
	Clock clock.WithTicker
	// Discovery selects the objects that may be node groups.
	Discovery model.Discovery
	// Reach watches whether the API servers answer and whether a replica leads. Refresh and changes are refused while an API
	// server does not answer. Increases are also refused when no replica has led for a minute, because no replica would create
	// the Machines. The caller runs Reach. Default: a Watch without a lease, which Start runs.
	Reach *reach.Watch
	// Elected is closed once this replica leads. Only the leader records Events with warnings about an object. Default: this
	// replica leads.
	Elected <-chan struct{}
	// Prices names a ConfigMap with prices. Default: no prices.
	Prices types.NamespacedName
	// RestartGuard keeps an autoscaler that has just started from ordering again the nodes that its predecessor ordered. For a
	// group that awaits such nodes, drover reports the group's size as its maximum until 5 s after pods can run on the nodes, but
	// at most for RestartGuard. Default: off.
	RestartGuard time.Duration
	// StartupTaint is the key of the taint that drover removes from a node before the node takes pods. Default: no taint.
	StartupTaint string
	// ZeroOrMax passes the annotation zeroormaxnodescaling on to the autoscaler. Default: it is ignored.
	ZeroOrMax bool
	// JoinTimeout is how long a server may take to become a node.
	JoinTimeout time.Duration
	// GPULabel is the key of the node label that holds the type of GPU. Default: no label.
	GPULabel string
	// Registry registers the metrics. Default: none are registered.
	Registry prometheus.Registerer
}

// Groups are the node groups of a cluster. All methods may be called concurrently. Reads are answered from memory. Writes to
// the same group run one after the other, writes to different groups in parallel.
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
	// reach is the Watch that Start runs; nil when the caller runs its own Watch.
	reach *reach.Watch
}

// parts are the clients and the clock that Groups uses.
type parts struct {
	source source
	// live reads from the control cluster's API server, and nodes reads from that of the target cluster.
	live, nodes client.Reader
	writer      client.Client
	recorder    events.EventRecorder
	options     Options
}

// New returns Groups. Until Start has synced the caches, Groups answers as if there were no groups.
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
		recorder: o.Control.GetEventRecorder(model.Manager),
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

// Synced is closed once the caches are synced and the first snapshot is made.
func (g *Groups) Synced() <-chan struct{} { return g.synced }

// Started records that an autoscaler has just started. The new autoscaler does not know which nodes its predecessor ordered, and
// from release 1.36 on it orders more nodes for the same pods. With RestartGuard, drover therefore reports groups that await
// nodes as unable to grow until pods can run on those nodes or the nodes have failed. Pods that need further nodes wait for that
// time.
func (g *Groups) Started() {
	if g.options.RestartGuard > 0 {
		g.store.guard(g.options.RestartGuard)
	}
}

// Connected reads the sizes of the groups from the API server, because a client has just connected. It returns within a few
// seconds, even when the read fails. The caller should answer the client's first call only after Connected has returned.
func (g *Groups) Connected(ctx context.Context) { g.sizes.connected(ctx) }

// Start syncs the caches, and makes snapshots from their changes until ctx ends.
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

// follow makes a new snapshot after events, but not more often than rebuildEvery and rebuildShare allow. Without events it
// makes one every snapshotAge.
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
		// Ignore the error: the next Refresh meets the same error and returns it.
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

// probe runs once per probeEvery. It checks that the watches deliver what the API server has, reads the prices, and removes the
// metrics of deleted groups.
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
