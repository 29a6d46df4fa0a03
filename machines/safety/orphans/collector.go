package orphans

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// name is the name of the collector in logs and Events, its field manager, and the name of the ConfigMap with its findings.
const name = "drover-orphans"

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
	// MaxPerPass is how many deletions of one round may be accepted, and how many Nodes are drained at a time.
	MaxPerPass int
	// DrainTimeout is how long the pods of an orphan's Node are evicted with respect for their disruption budgets. 0 or less
	// means that pods are not evicted.
	DrainTimeout time.Duration
	// VolumeTimeout is how long the collector waits for the volumes of a drained Node.
	VolumeTimeout time.Duration
	// Namespace is drover's own namespace, which has the ConfigMap with the findings.
	Namespace string
	// Lease is checked before each deletion. nil means that no other process can be the leader.
	Lease cloud.Lease
	// Stale returns why the reads of a round may be out of date, for example because an API server does not answer. The reason
	// is a text for operators; an empty text means that the reads are up to date.
	Stale func() string
	// Observed reports whether drover runs in observe mode. In observe mode no deletion is sent, so deletions are not
	// counted in the metrics.
	Observed bool
	Registry prometheus.Registerer
}

// Collector deletes orphans in rounds. It is a Runnable that runs only while this process holds the lease.
type Collector struct {
	Options
	control, target events.EventRecorder
	ends            *ends
	drainer         *drain.Drainer
	metrics         *metrics
	// report is the last report; empty before the first round.
	report string
	// defined is what the last round read for [verdict.Snapshot].Defined.
	defined time.Time
	// draining holds what the drains of Nodes wait for that the last round could not finish, by the ID of the server.
	draining map[string]string
	// recorded is the number of Events about single orphans since the begin of the last round.
	recorded int
}

// New returns a Collector. It returns an error if the metrics cannot be registered.
func New(o Options) (*Collector, error) {
	counted, err := newMetrics(o.Registry)
	return &Collector{
		Options: o, control: o.Control.GetEventRecorder(name), target: o.Target.GetEventRecorder(name), draining: map[string]string{},
		ends: &ends{provider: o.Cloud, clock: o.Clock, all: verdict.Ends{}}, drainer: &drain.Drainer{Client: o.Target.GetClient(), Reader: o.Target.GetAPIReader()}, metrics: counted,
	}, err
}

// SetupWithManager adds the collector to the manager. From then on the collector observes the end of every Machine.
func (c *Collector) SetupWithManager(mgr manager.Manager) error {
	informer, err := c.Control.GetCache().GetInformer(context.Background(), &v1alpha1.Machine{})
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: c.ends.exists, DeleteFunc: c.ends.observe})
	}
	if err != nil {
		return fmt.Errorf("watching Machines for the collector of orphans: %w", err)
	}
	return mgr.Add(c)
}

// NeedLeaderElection returns true: only the leader may delete.
func (c *Collector) NeedLeaderElection() bool { return true }

// betweenRounds is how often the collector stores the ends that it has observed, and continues the drains of Nodes, between two rounds.
const betweenRounds = 20 * time.Second

// Start runs a round every Period until ctx ends.
func (c *Collector) Start(ctx context.Context) error {
	next := c.Clock.Now().Add(c.Period)
	for {
		timer := c.Clock.NewTimer(min(next.Sub(c.Clock.Now()), betweenRounds))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		if c.Clock.Now().Before(next) {
			c.storeEnds(ctx)
			c.goOnDraining(ctx)
			continue
		}
		c.pass(ctx)
		next = c.Clock.Now().Add(c.Period)
	}
}

// pass runs one round. When somebody has changed the ConfigMap since the round began, such as a person who confirms, it runs the round
// again. When the ConfigMap cannot be read or written, nothing is collected.
func (c *Collector) pass(ctx context.Context) {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return c.round(ctx) })
	if err == nil || ctx.Err() != nil {
		return
	}
	c.metrics.set(&verdict.Verdict{Stops: []verdict.Stop{{Reason: verdict.Stale, Message: err.Error()}}})
	ctrl.LoggerFrom(ctx).Error(err, "Orphans are not collected")
	c.control.Eventf(c.configMap(), nil, corev1.EventTypeWarning, "OrphansNotCollected", "Collect", "%.500s", err.Error())
}

const ignored = "%.100q: it does not say what may be deleted, because it names nothing that this search has found and that needs a confirmation, so it is ignored: name the IDs, Machines or projects that the report shows"

// round reads, decides, stores the ends for the next leader with the report, and acts.
func (c *Collector) round(ctx context.Context) error {
	c.draining, c.recorded = map[string]string{}, 0
	b, err := c.read(ctx)
	if err != nil {
		return err
	}
	s := c.gather(ctx, false)
	v := verdict.Judge(s)
	last := cmp.Or(c.report, b.object.Data[reportKey])
	if b.read = v.Judged && len(b.words) > 0; b.read {
		confirmed, unknown := v.Confirm(b.words, s.Now.UTC(), last)
		c.ends.add(confirmed)
		maps.Copy(s.Ends, confirmed)
		v = verdict.Judge(s)
		for _, word := range unknown {
			v.Stops = append(v.Stops, verdict.Stop{Reason: verdict.Ignored, Message: fmt.Sprintf(ignored, word)})
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if c.metrics.set(&v); !c.leads() {
		// Only the leader writes the findings.
		return nil
	}
	c.ends.forget(v.Over, s.Ends)
	now, news := report(&v, last)
	if err := c.write(ctx, b, v.Left, now); err != nil {
		return err
	}
	c.report = now
	c.announce(ctx, news)
	c.act(ctx, &v)
	return nil
}
