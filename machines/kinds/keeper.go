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

// Reasons why a deletion is withheld.
const (
	// ReasonBeingDeleted: a definition of drover is being deleted or missing, or was missing, and nothing allows that
	// Machines go with it.
	ReasonBeingDeleted = "KindBeingDeleted"
	// ReasonUnknown: the API server did not say how the definitions are.
	ReasonUnknown = "KindUnknown"
)

const (
	// goodFor is how long an answer is taken again where a fresh one is not needed.
	goodFor = 5 * time.Second
	// readTimeout bounds one look at all definitions.
	readTimeout = 10 * time.Second
)

// definitionKind is that of a CustomResourceDefinition.
var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Options make a [Keeper].
type Options struct {
	// Reader asks the API server itself, never a cache: the definitions are read by name with the verb get alone.
	Reader client.Reader
	Clock  clock.PassiveClock
	// Registry takes the metric; nil: nobody does.
	Registry prometheus.Registerer
}

// Keeper knows whether Machines may be drained and deleted, by the state of drover's CustomResourceDefinitions.
type Keeper struct {
	Options
	metric prometheus.Gauge
	// turn is held by who looks; it guards last. (A channel, since waiting for a mutex is not rest to testing/synctest.)
	turn chan struct{}
	// begun counts the looks that have begun.
	begun atomic.Int64
	last  look
}

// look is one look at all definitions.
type look struct {
	// number is how many looks had begun when this one had.
	number int64
	at     time.Time
	all    []definition
	// reason and message say why Machines may not go; empty when they may.
	reason, message string
}

// New makes a Keeper.
func New(o Options) (*Keeper, error) {
	k := &Keeper{Options: o, turn: make(chan struct{}, 1), metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_deletions_withheld",
		Help: "1 while no Machine is drained or deleted because a CustomResourceDefinition of drover is being deleted, missing or unreadable, else 0. As of the last look at a Machine that is being deleted.",
	})}
	if o.Registry != nil {
		if err := o.Registry.Register(k.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return k, nil
}

// Withheld returns why the deletion of a Machine must wait, as a reason for a condition and a message for people; both are
// empty when it may go on. begun says that the deletion was allowed to begin before.
//
// A Machine that goes with a definition is marked as being deleted after the definition is. So an answer that the API
// server gives after the Machine's mark was seen cannot miss that, and a deletion begins only on such an answer. One that
// has begun, and one that is withheld, may take an answer that is up to 5 s old. Many Machines that ask at once share one.
func (k *Keeper) Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (reason, message string) {
	seen, err := k.look(ctx, begun)
	if err != nil {
		return ReasonUnknown, err.Error()
	}
	if seen.message != "" {
		return seen.reason, seen.message
	}
	since, ok := outlived(seen.all, m)
	if !ok {
		return "", ""
	}
	return k.orphaned(ctx, m, since)
}

// orphaned looks whether the Machine still has its set. One without was deleted by the garbage collector, maybe only
// because the set went with its definition.
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
		"MachineSet %s is gone, and CustomResourceDefinition %s was deleted and made again (%s) after the Machine was made, which may be all that deleted it",
		owner.Name, since.name, since.created.UTC().Format(time.RFC3339)), machines)
}

// look returns the last look if that is good enough, else a new one.
func (k *Keeper) look(ctx context.Context, begun bool) (look, error) {
	asked := k.begun.Load()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return look{}, fmt.Errorf("waiting for a look at drover's CustomResourceDefinitions: %w", context.Cause(ctx))
	}
	defer func() { <-k.turn }()
	recent := k.last.number > 0 && k.Clock.Since(k.last.at) < goodFor
	if k.last.number > asked || recent && (begun || k.last.message != "") {
		return k.last, nil
	}
	next := look{number: k.begun.Add(1), at: k.Clock.Now()}
	all, err := k.read(ctx)
	if err != nil && ctx.Err() != nil {
		return look{}, err
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

// read asks for all definitions, one by one.
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
			return nil, fmt.Errorf("no Machine is drained or deleted while drover cannot see that its CustomResourceDefinitions are in place; its role must allow that (kubectl apply --server-side -k deploy): %w", err)
		case err != nil:
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		default:
			all = append(all, definitionOf(crd))
		}
	}
	return all, nil
}

// report sets the metric, and logs when the answer has changed.
func (k *Keeper) report(now look) {
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
		log.Info("Machines are drained and deleted again")
	}
}
