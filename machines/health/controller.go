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

// name is that of the controller, the reporter of its Events and its field manager.
const name = "drover-health"

const (
	// pace is the least time between two passes.
	pace = time.Second
	// longestRefused bounds the wait for the next try to delete a Machine whose deletion was refused. The first waits are twice as
	// long as retryFailed, four times as long, and so on.
	longestRefused = 10 * time.Minute
	// retryLater is when to look again after a cache was behind, retryFailed after a write or a live read failed.
	retryLater  = 2 * time.Second
	retryFailed = 5 * time.Second
)

// Options make a [Reconciler].
type Options struct {
	// Control is where the Machines live, Target where their Nodes live.
	Control, Target cluster.Cluster
	Clock           clock.PassiveClock
	// Provider reads the physical hosts that Machines record.
	Provider cloud.Provider
	// Lease is looked at before each deletion. nil: it is always fresh.
	Lease cloud.Lease
	// Trust, unless nil, returns why what the caches show may be out of date, such as an API server that cannot be reached, and
	// since when they are up to date again. An empty reason: they are up to date.
	Trust func() (stale string, since time.Time)
	// Controller is the value that the label machine.k8s.io/controller of a Machine must have. Others are left alone.
	Controller string
	Settings   verdict.Settings
	// Registry takes the metrics; nil: nobody does.
	Registry prometheus.Registerer
}

// Reconciler replaces unhealthy Machines.
type Reconciler struct {
	options Options
	control client.Client
	// live reads Machines and their owners, liveNodes reads Nodes, from the API servers.
	live, liveNodes client.Reader
	events          events.EventRecorder
	records         records
	metrics         *metrics

	// What follows belongs to the only pass that runs at a time.

	// began is when this process had its first pass, which follows the taking of the lease. last is when the last one began.
	began, last time.Time
	// known has the Machines that passes have seen.
	known verdict.Known
	// noticed has the unhealthy Machines.
	noticed map[types.UID]notice
}

// notice is what is remembered of an unhealthy Machine: when it was first seen to be so, when a brake of many last held it, how many
// times its deletion was refused, and when that is tried again.
type notice struct {
	first, held, again time.Time
	refused            int
}

// New makes a Reconciler. The error says that the metrics could not be registered.
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

// Reconcile makes one pass over all Machines.
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

// remember keeps what is known of the unhealthy Machines, and forgets the others.
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

// refused remembers that the deletion of a Machine was refused, by a webhook or a policy: the others of its group go first, and it is
// tried again less and less often.
func (r *Reconciler) refused(machine types.UID) {
	n := r.noticed[machine]
	n.refused++
	n.again = r.last.Add(min(longestRefused, retryFailed<<min(n.refused, 10)))
	r.noticed[machine] = n
}

// carryOut replaces Machines, and writes what people are to see. It returns when to try again what could not be done; 0: all was.
func (r *Reconciler) carryOut(ctx context.Context, world *verdict.World, plan *verdict.Plan, objects map[*verdict.Group]client.Object) time.Duration {
	if world.Stale != "" {
		return 0
	}
	var o outcome
	r.writeRecords(ctx, world, plan, objects, &o)
	r.showConditions(ctx, plan, &o)
	for _, err := range o.failed {
		ctrl.LoggerFrom(ctx).Error(err, "A step of health failed and is repeated")
	}
	switch {
	case len(o.failed) > 0:
		return retryFailed
	case o.later:
		return retryLater
	}
	return 0
}

// outcome gathers what of a pass could not be done.
type outcome struct {
	// later: a cache was behind, or another client was faster; the next pass sees what is so now.
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

// leading reports whether this process may be the only one that acts.
func (r *Reconciler) leading() bool {
	return r.options.Lease == nil || r.options.Lease.Fresh(r.options.Clock.Now())
}

// describe names an object for logs.
func describe(m *v1alpha1.Machine) string { return fmt.Sprintf("%s/%s", m.Namespace, m.Name) }
