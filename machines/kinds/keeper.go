package kinds

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons why the deletion of a Machine is blocked.
const (
	// ReasonBeingDeleted means that one of drover's CRDs is being deleted, is missing, or was missing earlier, and that no
	// annotation allows the deletion of Machines.
	ReasonBeingDeleted = "KindBeingDeleted"
	// ReasonUnknown means that the state of the CRDs, or of the Machine's set, could not be read from the API server.
	ReasonUnknown = "KindUnknown"
)

const (
	// goodFor is how long the result of a read is reused for a deletion that has begun or that is blocked.
	goodFor = 5 * time.Second
	// readTimeout bounds one read of all CRDs.
	readTimeout = 10 * time.Second
)

// definitionKind is the kind of a CustomResourceDefinition.
var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Options configure a [Keeper].
type Options struct {
	// Reader reads from the API server and not from a cache. It reads each CRD by name, so that it needs only the verb get.
	Reader client.Reader
	Clock  clock.PassiveClock
	// Registry registers the metric. nil means that the metric is not registered.
	Registry prometheus.Registerer
}

// Keeper decides from the state of drover's CRDs whether Machines may be drained and deleted.
type Keeper struct {
	Options
	metric prometheus.Gauge
	// reading is a lock for reads and for the field last: send to lock, receive to unlock. It is a channel because testing/synctest
	// does not treat waiting for a mutex as durably blocked.
	reading chan struct{}
	// started counts the reads that have started.
	started atomic.Int64
	last    result
}

// result is the outcome of one read of all CRDs.
type result struct {
	// number is the position of this read among all reads of this process, in the order in which they started.
	number int64
	at     time.Time
	all    []definition
	// reason and message explain why Machines may not be deleted; empty when they may be.
	reason, message string
}

// New returns a Keeper. It returns an error if the metric cannot be registered.
func New(o Options) (*Keeper, error) {
	k := &Keeper{Options: o, reading: make(chan struct{}, 1), metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_deletions_withheld",
		Help: "1 while no Machine is drained or deleted because a CustomResourceDefinition of drover is being deleted, missing or unreadable, else 0. As of the last check for a Machine that is being deleted.",
	})}
	if o.Registry != nil {
		if err := o.Registry.Register(k.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return k, nil
}

// Withheld returns why the deletion of a Machine must wait, as the reason and the message of a condition; both are empty when
// the deletion may go on. begun reports whether the deletion was allowed to begin earlier.
//
// When a CRD is deleted, it gets its deletion timestamp before its Machines get theirs. So a read that starts after the
// Machine's deletion was seen also shows that the CRD is being deleted, and a deletion begins only after such a read. For a
// deletion that has begun, or that is blocked, Withheld may use a result that is up to 5 s old. Many simultaneous calls share
// one read.
func (k *Keeper) Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (reason, message string) {
	seen, err := k.check(ctx, begun)
	if err != nil {
		return ReasonUnknown, err.Error()
	}
	if seen.message != "" {
		return seen.reason, seen.message
	}
	since, ok := recreatedOwner(seen.all, m)
	if !ok {
		return "", ""
	}
	return k.orphaned(ctx, m, since)
}

// orphaned blocks the deletion unless the Machine's set still exists. If the set is gone, the garbage collector has requested
// the deletion of the Machine, perhaps only because the set was deleted with its CRD.
func (k *Keeper) orphaned(ctx context.Context, m *v1alpha1.Machine, since definition) (reason, message string) {
	owner := metav1.GetControllerOf(m)
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(v1alpha1.MachineSetKind)
	err := k.Reader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, set)
	switch {
	case err == nil && set.UID == owner.UID && set.DeletionTimestamp == nil:
		return "", ""
	case client.IgnoreNotFound(err) != nil:
		return ReasonUnknown, fmt.Sprintf("reading MachineSet %s: %v", owner.Name, err)
	}
	return ReasonBeingDeleted, withheld(fmt.Sprintf(
		"MachineSet %s is gone, and CustomResourceDefinition %s was created again (%s) after the Machine, so the Machine may have been deleted only because that definition was deleted",
		owner.Name, since.name, since.created.UTC().Format(time.RFC3339)), machines)
}

// check returns the last result if it is recent enough; otherwise it reads the CRDs and returns the new result.
func (k *Keeper) check(ctx context.Context, begun bool) (result, error) {
	asked := k.started.Load()
	select {
	case k.reading <- struct{}{}:
	case <-ctx.Done():
		return result{}, fmt.Errorf("waiting to read drover's CustomResourceDefinitions: %w", context.Cause(ctx))
	}
	defer func() { <-k.reading }()
	recent := k.last.number > 0 && k.Clock.Since(k.last.at) < goodFor
	if k.last.number > asked || recent && (begun || k.last.message != "") {
		return k.last, nil
	}
	next := result{number: k.started.Add(1), at: k.Clock.Now()}
	all, err := k.read(ctx)
	if err != nil && ctx.Err() != nil {
		return result{}, err
	}
	next.all = all
	if next.message = judge(all); next.message != "" {
		next.reason = ReasonBeingDeleted
	}
	if err != nil {
		next.reason, next.message = ReasonUnknown, err.Error()
	}
	k.report(next)
	k.last = next
	return next, nil
}

// read reads all CRDs from the API server, one by one.
func (k *Keeper) read(ctx context.Context) ([]definition, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var all []definition
	for _, name := range Names {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(definitionKind)
		err := k.Reader.Get(ctx, client.ObjectKey{Name: name}, crd)
		switch {
		case apierrors.IsNotFound(err):
			all = append(all, definition{name: name, missing: true})
		case apierrors.IsForbidden(err):
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: drover's role does not allow it (kubectl apply --server-side -k deploy); until the role allows it, no Machine is drained or deleted: %w", name, err)
		case err != nil:
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		default:
			all = append(all, definitionOf(crd))
		}
	}
	return all, nil
}

// report sets the metric, and logs a change of the result.
func (k *Keeper) report(now result) {
	value := 0.0
	if now.message != "" {
		value = 1
	}
	k.metric.Set(value)
	log := ctrl.Log.WithName("kinds")
	switch {
	case now.message == k.last.message:
	case now.message != "":
		log.Info("No Machine is drained or deleted", "reason", now.reason, "cause", now.message)
	default:
		log.Info("Draining and deleting of Machines continues")
	}
}
