package orphans

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// name is that of the collector in logs and Events, and of the ConfigMap that shows what it found.
const name = "drover-orphans"

// fieldOwner is the field manager of the collector's writes.
const fieldOwner = "drover-orphans"

// Options make a [Collector]. All fields are required unless they say otherwise.
type Options struct {
	// Control is where the Machines live, Target where their Nodes live. The target's cache must have the indexes of package drain.
	Control, Target cluster.Cluster
	Cloud           cloud.Cloud
	Clock           clock.WithTicker
	// Settings decide what is deleted. Period is the time between two passes; the first one comes a period after the start.
	Settings verdict.Settings
	Period   time.Duration
	// VolumeTimeout is how long the volumes of a drained Node are waited for.
	VolumeTimeout time.Duration
	// Namespace is drover's own, IDConfigMap the name of the ConfigMap with the cluster ID in it: Events are about it.
	Namespace, IDConfigMap string
	ClusterID              string
	// Confirmed reports whether an operator has confirmed that what has no Machine may be deleted.
	Confirmed func(ctx context.Context) (bool, error)
	// Lease is looked at before each deletion. nil: there is no other process.
	Lease cloud.Lease
	// Leading returns until when another process is known to have led before this one, zero when none is known of, and since when
	// this one leads. nil: nobody knows who leads.
	Leading func() (before, since time.Time)
	// Stale returns, for people, why nothing may be concluded from what is read, such as an API server that does not answer; empty:
	// it may. nil: it always may.
	Stale func() string
	// Observed: all writes are only noted, so that no deletion is counted.
	Observed bool
	// Registry takes the metrics; nil: nobody does.
	Registry prometheus.Registerer
}

// Collector deletes orphans, pass by pass. It is a Runnable that needs the lease.
type Collector struct {
	Options
	control, target events.EventRecorder
	witness         *witness
	drainer         *drain.Drainer
	metrics         *metrics
	board           *board
	// memory is that of the pass before.
	memory verdict.Memory
	// draining are the servers of that pass whose Nodes are not drained yet.
	draining []*verdict.Orphan
	// told are what was said last of each orphan and of the pass, so that nothing is said twice.
	told map[string]string
}

// New makes a Collector. The error is about the metrics.
func New(o Options) (*Collector, error) {
	counted, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	return &Collector{
		Options: o, control: o.Control.GetEventRecorder(name), target: o.Target.GetEventRecorder(name),
		witness: newWitness(o.Clock), drainer: &drain.Drainer{Client: o.Target.GetClient(), Reader: o.Target.GetAPIReader()},
		metrics: counted, board: &board{client: o.Control.GetClient(), namespace: o.Namespace}, told: map[string]string{},
	}, nil
}

// SetupWithManager makes the manager run the collector, which sees every Machine from now on.
func (c *Collector) SetupWithManager(mgr manager.Manager) error {
	informer, err := c.Control.GetCache().GetInformer(context.Background(), &v1alpha1.Machine{})
	if err != nil {
		return fmt.Errorf("watching Machines for the collector of orphans: %w", err)
	}
	if _, err := informer.AddEventHandler(c.witness); err != nil {
		return fmt.Errorf("watching Machines for the collector of orphans: %w", err)
	}
	return mgr.Add(c)
}

// NeedLeaderElection is true: only the leader may delete.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start makes a pass every Period until ctx ends, and looks at the Nodes that are being drained in between.
func (c *Collector) Start(ctx context.Context) error {
	began := c.Clock.Now()
	next := began.Add(c.Period)
	ready := c.begin(ctx)
	for c.sleep(ctx, next) {
		now := c.Clock.Now()
		switch {
		case now.Before(next):
			c.goOnDraining(ctx)
			continue
		case ready || c.begin(ctx):
			ready = true
			c.pass(ctx, c.ledSince(began))
		}
		if next = next.Add(c.Period); !next.After(now) {
			next = now.Add(c.Period)
		}
	}
	return nil
}

// sleep waits until the next pass, or until the Nodes that are being drained are looked at again. It returns false when ctx ended first.
func (c *Collector) sleep(ctx context.Context, next time.Time) bool {
	wait := next.Sub(c.Clock.Now())
	if len(c.draining) > 0 {
		wait = min(wait, drainPeriod)
	}
	timer := c.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// begin reads what a predecessor left. It reports whether that could be read and is stored with what this process knows.
func (c *Collector) begin(ctx context.Context) bool {
	stored, err := c.board.load(ctx)
	if err == nil {
		c.memory.Stored = stored
		if span, long := c.unled(); long {
			c.memory.Stored = stored.WithUnled(span)
			err = c.board.store(ctx, c.memory.Stored, c.board.report)
		}
	}
	if err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Orphans are not collected yet: what is known of them cannot be read or stored")
	}
	return err == nil
}

// unled returns the span in which nobody led before this process did, and reports whether it is long enough to matter.
func (c *Collector) unled() (verdict.Span, bool) {
	if c.Leading == nil {
		return verdict.Span{}, false
	}
	before, since := c.Leading()
	span := verdict.Span{From: before, To: since}
	return span, verdict.Matters(span)
}

// ledSince returns since when no other process leads and this one sees all Machines.
func (c *Collector) ledSince(began time.Time) time.Time {
	if c.Leading == nil {
		return began
	}
	if _, since := c.Leading(); since.After(began) {
		return since
	}
	return began
}

// pass reads, decides, shows and acts.
func (c *Collector) pass(ctx context.Context, since time.Time) {
	c.draining = nil
	snapshot := c.gather(ctx)
	snapshot.History = verdict.History{Since: since, Seen: c.witness.sightings()}
	decided, memory := verdict.Judge(snapshot, c.memory)
	if ctx.Err() != nil {
		return
	}
	c.memory = memory
	c.metrics.set(&decided)
	if !c.leads() {
		// Whoever leads writes what is shown.
		return
	}
	if err := c.board.store(ctx, memory.Stored, reportOf(&decided)); err != nil {
		// What a successor must know is stored before anything is deleted.
		ctrl.LoggerFrom(ctx).Error(err, "Orphans are not collected: what was found cannot be stored")
		c.memory.Orphans = nil
		return
	}
	c.announce(ctx, &decided)
	c.act(ctx, &decided)
	if decided.Judged {
		c.witness.keep(snapshot.Projects)
	}
}
