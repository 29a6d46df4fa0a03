package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/patch"
)

// name is the name of the controller, which is also its field manager and the reporter of its Events.
const name = "drover-health"

const (
	// pace is the minimum time between two rounds.
	pace = time.Second
	// longestRefused bounds the wait before drover tries again to delete a Machine whose deletion was refused. The first wait
	// is twice retryFailed, the second four times retryFailed, and so on.
	longestRefused = 10 * time.Minute
	// retryLater is the wait before a retry when a cache did not show a change yet. retryFailed is the wait after a failed write or
	// live read.
	retryLater  = 2 * time.Second
	retryFailed = 5 * time.Second
)

// Options configure a [Reconciler].
type Options struct {
	// Control is the cluster of the Machines, Target the cluster of their Nodes.
	Control, Target cluster.Cluster
	Clock           clock.PassiveClock
	// Provider reads the physical host of a Machine's server from the Machine's status.
	Provider cloud.Provider
	// Lease is checked before each deletion. nil means that the lease is always fresh.
	Lease cloud.Lease
	// Trust returns why the caches may be out of date, for example because an API server does not answer, and since when they
	// are up to date again. An empty reason means that they are up to date. If Trust is nil, the caches are always trusted.
	Trust func() (stale string, since time.Time)
	// Controller is the required value of the label machine.k8s.io/controller of a Machine. Other Machines are ignored.
	Controller string
	Settings   verdict.Settings
	// Registry registers the metrics. nil means that they are not registered.
	Registry prometheus.Registerer
}

// Reconciler replaces unhealthy Machines.
type Reconciler struct {
	options Options
	control client.Client
	// live reads Machines and their owners from the API server; liveNodes reads Nodes.
	live, liveNodes client.Reader
	events          events.EventRecorder
	records         records
	metrics         *metrics

	// Only one round runs at a time, and only that round uses the fields below.

	// began is when this process started its first round after it acquired the lease. last is when the last round started.
	began, last time.Time
	// known remembers the Machines that earlier rounds have seen.
	known verdict.Known
	// noticed holds the state of the unhealthy Machines.
	noticed map[types.UID]notice
	// starting holds since when this process has seen the Nodes of Machines starting.
	starting map[types.UID]time.Time
}

// notice is the state of an unhealthy Machine. first is when it was first seen to be unhealthy. held is when its replacement
// was last blocked by a brake because of too many unhealthy Machines. refused counts its refused deletions, and again is when
// the deletion is tried again.
type notice struct {
	first, held, again time.Time
	refused            int
}

// New returns a Reconciler. It returns an error if the metrics cannot be registered.
func New(o Options) (*Reconciler, error) {
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	c := o.Control.GetClient()
	return &Reconciler{
		options: o, control: c, live: o.Control.GetAPIReader(), liveNodes: o.Target.GetAPIReader(),
		events: o.Control.GetEventRecorder(name), metrics: m, noticed: map[types.UID]notice{},
		records: records{writer: patch.Writer{Client: c, FieldManager: name}, known: map[types.UID]record{}},
	}, nil
}

// Reconcile runs one round over all Machines.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := r.options.Clock.Now()
	if wait := r.last.Add(pace).Sub(now); wait > 0 && wait <= pace {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.last = now
	if r.began.IsZero() {
		r.began = now
	}
	if !r.leading() {
		return ctrl.Result{RequeueAfter: pace}, nil
	}
	world, objects, err := r.snapshot(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	plan := verdict.Judge(world)
	if world.Stale == "" {
		r.remember(&plan)
		r.metrics.show(&plan)
	}
	next := plan.NextLook
	if again := r.carryOut(ctx, world, &plan, objects); again > 0 && (next.IsZero() || now.Add(again).Before(next)) {
		next = now.Add(again)
	}
	if next.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(pace, next.Sub(now))}, nil
}

// remember keeps the state of the unhealthy Machines, and drops the state of all others.
func (r *Reconciler) remember(plan *verdict.Plan) {
	noticed := make(map[types.UID]notice, plan.Unhealthy)
	for _, v := range plan.Verdicts {
		n := r.noticed[v.Machine.UID]
		switch {
		case !v.Unhealthy && (!v.Asked || n.refused == 0):
			continue
		case !v.Unhealthy:
			n.first = time.Time{}
		case n.first.IsZero():
			n.first = r.last
		}
		if v.Brake.OfMany() {
			n.held = r.last
		}
		noticed[v.Machine.UID] = n
	}
	r.noticed = noticed
}

// refused records that a webhook or a policy refused the deletion of a Machine. Other Machines of its group are replaced
// first, and the deletion is repeated with increasing waits.
func (r *Reconciler) refused(machine types.UID) {
	n := r.noticed[machine]
	n.refused++
	n.again = r.last.Add(min(longestRefused, retryFailed<<min(n.refused, 10)))
	r.noticed[machine] = n
}

// carryOut replaces Machines, and writes the conditions of Machines and the status of groups. It returns how long to wait
// before a retry; 0 when nothing failed.
func (r *Reconciler) carryOut(ctx context.Context, world *verdict.World, plan *verdict.Plan, objects map[*verdict.Group]client.Object) time.Duration {
	if world.Stale != "" {
		return 0
	}
	var o outcome
	r.writeRecords(ctx, world, plan, objects, &o)
	r.showConditions(ctx, plan, &o)
	for _, err := range o.failed {
		ctrl.LoggerFrom(ctx).Error(err, "Replacing unhealthy Machines failed and is repeated")
	}
	switch {
	case len(o.failed) > 0:
		return retryFailed
	case o.later:
		return retryLater
	}
	return 0
}

// outcome collects the failures of a round.
type outcome struct {
	// later is true when work is left for the next round, for example because a cache was behind, or another client wrote at
	// the same time.
	later  bool
	failed []error
}

func (o *outcome) add(err error) {
	switch {
	case err == nil:
	case errors.Is(err, errLater) || apierrors.IsConflict(err):
		o.later = true
	default:
		o.failed = append(o.failed, err)
	}
}

// leading reports whether this process may still be the leader.
func (r *Reconciler) leading() bool {
	return r.options.Lease == nil || r.options.Lease.Fresh(r.options.Clock.Now())
}

// describe returns namespace and name of a Machine for messages.
func describe(m *v1alpha1.Machine) string { return fmt.Sprintf("%s/%s", m.Namespace, m.Name) }
