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

// name is the name of the collector in logs and Events, and the name of the ConfigMap with its findings.
const name = "drover-orphans"

// fieldOwner is the field manager of the collector's writes.
const fieldOwner = "drover-orphans"

// Options configure a [Collector]. All fields are required unless their comment names a default.
type Options struct {
	// Control is the cluster of the Machines, Target the cluster of their Nodes. The cache of the target cluster must have
	// the indexes of package drain.
	Control, Target cluster.Cluster
	Cloud           cloud.Cloud
	Clock           clock.WithTicker
	// Settings decide what is deleted. Period is the interval between two rounds; the first round starts one Period after the
	// start of the collector.
	Settings verdict.Settings
	Period   time.Duration
	// VolumeTimeout is how long the collector waits for the volumes of a drained Node.
	VolumeTimeout time.Duration
	// Namespace is drover's own namespace. IDConfigMap is the name of the ConfigMap with the cluster ID, which is the subject
	// of Events.
	Namespace, IDConfigMap string
	ClusterID              string
	// Confirmed reports whether an operator has confirmed that orphans may be deleted.
	Confirmed func(ctx context.Context) (bool, error)
	// Lease is checked before each deletion. nil means that no other process can be the leader.
	Lease cloud.Lease
	// Leading returns two times: until when another process is known to have been the leader (before; zero when none is known),
	// and since when this process has been the leader (since). A nil Leading means that the leaders are not known.
	Leading func() (before, since time.Time)
	// Stale returns why the reads of a round may be out of date, for example because an API server does not answer. The reason
	// is a text for operators; an empty text means that the reads are up to date. If Stale is nil, they always count as up to
	// date.
	Stale func() string
	// Observed reports whether drover runs in observe mode. In observe mode writes are only logged, so deletions are not
	// counted.
	Observed bool
	// Registry registers the metrics. nil means that they are not registered.
	Registry prometheus.Registerer
}

// Collector deletes orphans in rounds. It is a Runnable that runs only while this process holds the lease.
type Collector struct {
	Options
	control, target events.EventRecorder
	witness         *witness
	drainer         *drain.Drainer
	metrics         *metrics
	board           *board
	// memory is the memory of the last round.
	memory verdict.Memory
	// draining are the servers from the last round whose Nodes are not drained yet.
	draining []*verdict.Orphan
	// told holds the last report about each orphan and about the whole round, so that no report is repeated.
	told map[string]string
	// recorded is the number of reports about single orphans since the end of the last round.
	recorded int
}

// New returns a Collector. It returns an error if the metrics cannot be registered.
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

// SetupWithManager adds the collector to the manager. From then on the collector sees every Machine.
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

// NeedLeaderElection returns true: only the leader may delete.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start runs a round every Period until ctx ends. Between two rounds it checks the Nodes that are being drained.
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

// sleep waits until the next round, or until the Nodes that are being drained must be checked. It returns false when ctx has
// ended.
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

// begin reads the memory that the previous leader stored. If there was no leader for a while before this process, begin adds that
// span of time to the memory and stores it. begin reports whether reading and storing succeeded.
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
		ctrl.LoggerFrom(ctx).Error(err, "Orphans are not collected: reading or storing the record of earlier rounds failed")
	}
	return err == nil
}

// unled returns the span of time without a leader before this process became the leader. It also reports whether the span is so
// long that an unknown leader may have created resources in it.
func (c *Collector) unled() (verdict.Span, bool) {
	if c.Leading == nil {
		return verdict.Span{}, false
	}
	before, since := c.Leading()
	span := verdict.Span{From: before, To: since}
	return span, verdict.Matters(span)
}

// ledSince returns the time since which this process has been the only leader and has seen all Machines.
func (c *Collector) ledSince(began time.Time) time.Time {
	if c.Leading == nil {
		return began
	}
	if _, since := c.Leading(); since.After(began) {
		return since
	}
	return began
}

// pass runs one round: it reads, decides, reports, and acts.
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
		// Only the leader writes the findings.
		return
	}
	if err := c.board.store(ctx, memory.Stored, reportOf(&decided)); err != nil {
		// Nothing is deleted unless the memory for the next leader is stored first.
		ctrl.LoggerFrom(ctx).Error(err, "Orphans are not collected: storing the findings failed")
		c.memory.Orphans = nil
		return
	}
	c.announce(ctx, &decided)
	c.act(ctx, &decided)
	c.endRound()
	if decided.Judged {
		c.witness.keep(snapshot.Projects)
	}
}
