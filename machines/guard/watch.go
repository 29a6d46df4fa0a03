package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names are those of the policies, and of their bindings.
var Names = []string{"drover-guard-groups", "drover-guard-machines"}

// ReasonNotInForce is the reason of the Event about policies that are not in force.
const ReasonNotInForce = "GuardPoliciesNotInForce"

const (
	// lookEvery is the time between two looks at the stored policies and bindings.
	lookEvery = time.Minute
	// takeUp is how long the policies must have been stored unchanged: an API server acts on a policy a moment after it
	// was written.
	takeUp = 10 * time.Second
	// goodFor is how long an answer holds while the API server does not give another one.
	goodFor = 3 * lookEvery
	// lookTimeout bounds one look.
	lookTimeout = 10 * time.Second
)

// Options make a [Watch].
type Options struct {
	// Reader asks the API server itself, never a cache: policies and bindings are read by name with the verb get alone.
	Reader client.Reader
	// Shipped are the manifests of the policies and bindings as they must be stored; others are passed over.
	Shipped []*unstructured.Unstructured
	Events  events.EventRecorder
	Clock   clock.WithTicker
	// Registry takes the metric; nil: nobody does.
	Registry prometheus.Registerer
}

// Watch looks at the guard policies, now and then.
type Watch struct {
	Options
	metric prometheus.Gauge
	last   atomic.Pointer[look]
}

// look is what the last look found.
type look struct {
	// version identifies what was stored, for comparing two looks.
	version string
	// since is when this version was first seen, at when it was last seen.
	since, at time.Time
	// why says what is missing or altered; empty when nothing is.
	why string
}

// New makes a Watch. It knows of no policy until [Watch.Start] has looked. Errors: Shipped lacks a policy or a binding; the
// metric could not be registered.
func New(o Options) (*Watch, error) {
	w := &Watch{Options: o, metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_guard_policies_in_force",
		Help: "1 while the admission policies that guard what drover believes, and their bindings, are stored as they were shipped, else 0.",
	})}
	w.Shipped = nil
	for _, name := range Names {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			shipped := find(o.Shipped, kind, name)
			if shipped == nil {
				return nil, fmt.Errorf("finding the shipped guard policies: there is no %s %s", kind, name)
			}
			w.Shipped = append(w.Shipped, shipped)
		}
	}
	w.last.Store(&look{why: "they have not been looked at yet"})
	if o.Registry != nil {
		if err := o.Registry.Register(w.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return w, nil
}

func find(all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

// InForce reports whether the guard policies and their bindings have been stored as they were shipped for at least 10 s, as of
// the last look. It makes no call. The answer is no before the first look, and when the API server has not been reached for
// 3 minutes. It says nothing about values that were written before the policies were in force.
func (w *Watch) InForce() bool {
	l, now := w.last.Load(), w.Clock.Now()
	return l.why == "" && l.at.Sub(l.since) >= takeUp && now.Sub(l.at) < goodFor
}

// NeedLeaderElection reports that only the leader looks, since only the leader acts.
func (w *Watch) NeedLeaderElection() bool { return true }

// Start looks once a minute until ctx ends, and more often until what it found has stayed the same for a moment.
func (w *Watch) Start(ctx context.Context) error {
	for {
		w.look(ctx)
		next := lookEvery
		if l := w.last.Load(); l.why == "" && !w.InForce() {
			next = takeUp
		}
		timer := w.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// look reads the policies and bindings, and reports a change.
func (w *Watch) look(ctx context.Context) {
	before, now := w.last.Load(), w.Clock.Now()
	version, why, err := w.read(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && now.Sub(before.at) < goodFor:
		ctrl.LoggerFrom(ctx).Error(err, "The guard policies could not be read; the last answer still holds", "inForce", w.InForce())
		return
	case err != nil:
		why = err.Error()
	}
	l := &look{version: version, since: now, at: now, why: why}
	if before.version == version && why == "" {
		l.since = before.since
	}
	w.last.Store(l)
	w.report(ctx, before, l)
}

// read returns which versions of the policies and bindings are stored, and what of them is missing or altered.
func (w *Watch) read(ctx context.Context) (version, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var versions, wrong []string
	for _, shipped := range w.Shipped {
		name := shipped.GetKind() + " " + shipped.GetName()
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(shipped.GroupVersionKind())
		err := w.Reader.Get(ctx, client.ObjectKeyFromObject(shipped), stored)
		fields := Altered(shipped, stored)
		switch {
		case apierrors.IsNotFound(err):
			wrong = append(wrong, name+" is missing")
		case err != nil:
			return "", "", fmt.Errorf("reading %s: %w", name, err)
		case stored.GetDeletionTimestamp() != nil:
			wrong = append(wrong, name+" is being deleted")
		case fields != "":
			wrong = append(wrong, fmt.Sprintf("%s is not as shipped (%s)", name, fields))
		}
		versions = append(versions, fmt.Sprintf("%s/%d", stored.GetUID(), stored.GetGeneration()))
	}
	return strings.Join(versions, " "), strings.Join(wrong, "; "), nil
}

// errNotInForce is logged with what is missing.
var errNotInForce = errors.New("the guard policies are not in force")

// report sets the metric. It logs a change, and records an Event when the policies are missing or altered.
func (w *Watch) report(ctx context.Context, before, now *look) {
	w.metric.Set(map[bool]float64{true: 1, false: 0}[now.why == ""])
	if now.why == before.why {
		return
	}
	if now.why == "" {
		ctrl.LoggerFrom(ctx).Info("The guard policies are in place", "policies", Names)
		return
	}
	const remedy = "what they guard is not believed; apply the policies of this version: kubectl apply --server-side -k deploy"
	ctrl.LoggerFrom(ctx).Error(errNotInForce, "Values that authors could have written are not believed", "why", now.why, "remedy", remedy)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.Shipped[len(w.Shipped)-1].GetName()}}
	w.Events.Eventf(policy, nil, corev1.EventTypeWarning, ReasonNotInForce, "Check", "%s: %s", now.why, remedy)
}
