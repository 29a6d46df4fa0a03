package orphans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	ends            *ends
	drainer         *drain.Drainer
	metrics         *metrics
	// report is the last report; empty before the first round.
	report string
	// draining are the servers from the last round whose Nodes are not drained yet.
	draining []*draining
	// recorded is the number of Events since the end of the last round.
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
		ends: newEnds(o.Cloud, o.Clock), drainer: &drain.Drainer{Client: o.Target.GetClient(), Reader: o.Target.GetAPIReader()}, metrics: counted,
	}, nil
}

// SetupWithManager adds the collector to the manager. From then on the collector observes the end of every Machine.
func (c *Collector) SetupWithManager(mgr manager.Manager) error {
	informer, err := c.Control.GetCache().GetInformer(context.Background(), &v1alpha1.Machine{})
	if err != nil {
		return fmt.Errorf("watching Machines for the collector of orphans: %w", err)
	}
	if _, err := informer.AddEventHandler(c.ends.handler()); err != nil {
		return fmt.Errorf("watching Machines for the collector of orphans: %w", err)
	}
	return mgr.Add(c)
}

// NeedLeaderElection returns true: only the leader may delete.
func (c *Collector) NeedLeaderElection() bool { return true }

// together is how long the collector waits for further ends of Machines before it stores those that it has observed, and before it tries to
// store them again.
const together = 10 * time.Second

// Start runs a round every Period until ctx ends. Between two rounds it stores the ends of Machines that leave something behind, and
// checks the Nodes that are being drained.
func (c *Collector) Start(ctx context.Context) error {
	round := c.Clock.Now().Add(c.Period)
	check := round
	for {
		timer := c.Clock.NewTimer(min(round.Sub(c.Clock.Now()), check.Sub(c.Clock.Now())))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-c.ends.observed:
			timer.Stop()
			if c.Clock.Now().Before(round) {
				c.keepEnds(ctx)
				continue
			}
		case <-timer.C():
		}
		now := c.Clock.Now()
		if now.Before(round) {
			c.goOnDraining(ctx)
		} else {
			c.ends.unsignal()
			c.pass(ctx)
			if round = round.Add(c.Period); !round.After(now) {
				round = now.Add(c.Period)
			}
		}
		if check = round; len(c.draining) > 0 {
			check = now.Add(drainPeriod)
		}
	}
}

// keepEnds stores the observed ends of Machines with a resource or Node left, so that the next leader has them.
func (c *Collector) keepEnds(ctx context.Context) {
	timer := c.Clock.NewTimer(together)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C():
	}
	if err := c.storeEnds(ctx); err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Storing the ends of Machines failed; drover tries again")
		c.ends.signal()
	}
}

func (c *Collector) storeEnds(ctx context.Context) error {
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return err
	}
	b, err := c.read(ctx)
	if err != nil {
		return err
	}
	if !c.leads() {
		return errors.New("the lease was not renewed lately")
	}
	return c.write(ctx, b, verdict.Left(c.Cloud.Tagged(ctx), nodes), b.object.Data[reportKey], false)
}

// pass runs one round: it reads, decides, reports, and acts.
func (c *Collector) pass(ctx context.Context) {
	c.draining = nil
	b, err := c.read(ctx)
	if err != nil {
		c.fail(ctx, err)
		return
	}
	snapshot := c.gather(ctx)
	decided := verdict.Judge(snapshot)
	last := cmp.Or(c.report, b.object.Data[reportKey])
	var unknown []string
	read := decided.Judged && len(b.words) > 0
	if read {
		var confirmed verdict.Ends
		confirmed, unknown = decided.Confirm(b.words, snapshot.Now.UTC(), last)
		c.ends.add(confirmed)
		maps.Copy(snapshot.Ends, confirmed)
		decided = verdict.Judge(snapshot)
	}
	if ctx.Err() != nil {
		return
	}
	c.metrics.set(&decided)
	if !c.leads() {
		// Only the leader writes the findings.
		return
	}
	c.ends.forget(snapshot.Ends, decided.Over)
	found := findings(&decided, unknown)
	report := reportOf(found, decided.Judged, last)
	if err := c.store(ctx, b, &decided, report, read); err != nil {
		c.fail(ctx, err)
		return
	}
	c.announce(ctx, found, last)
	c.report = report
	c.act(ctx, &decided)
	c.endRound()
}

// store writes the findings. Nothing is deleted unless the ends for the next leader are stored first. When somebody has changed the
// ConfigMap since the round began, such as a person who confirms, it is read and written once more. A confirmation that the round has not
// read stays for the next one.
func (c *Collector) store(ctx context.Context, b *board, decided *verdict.Verdict, report string, read bool) error {
	err := c.write(ctx, b, decided.Left, report, read)
	if !apierrors.IsConflict(err) {
		return err
	}
	now, err := c.read(ctx)
	if err != nil {
		return err
	}
	return c.write(ctx, now, decided.Left, report, read && slices.Equal(now.words, b.words))
}

// fail reports that a round collects nothing because its ConfigMap cannot be read or written.
func (c *Collector) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.metrics.set(&verdict.Verdict{Stops: []verdict.Stop{{Reason: verdict.Stale, Message: err.Error()}}})
	ctrl.LoggerFrom(ctx).Error(err, "Orphans are not collected")
	c.control.Eventf(c.configMap(), nil, corev1.EventTypeWarning, "OrphansNotCollected", "Collect", "%.500s", err.Error())
}
