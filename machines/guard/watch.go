package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	"github.com/drover-project/drover/machines/periodic"
)

// Names are the names of the policies; each policy's binding has the same name.
var Names = []string{"drover-guard-groups", "drover-guard-machines"}

// ReasonNotInForce is the reason of the Event that reports policies that are not in force.
const ReasonNotInForce = "GuardPoliciesNotInForce"

const (
	// lookEvery is the time between two reads of the stored policies and bindings.
	lookEvery = time.Minute
	// takeUp is how long the policies must have been stored unchanged before they count as in force. An API server enforces a policy
	// only a moment after the policy was written.
	takeUp = 10 * time.Second
	// goodFor is how long the result of a read stays valid while later reads fail.
	goodFor = 3 * lookEvery
	// lookTimeout bounds one read of all policies and bindings.
	lookTimeout = 10 * time.Second
)

// Options configure a [Watch].
type Options struct {
	// Reader reads from the API server and not from a cache. It reads policies and bindings by name, so that it needs only the
	// verb get.
	Reader client.Reader
	// Shipped are drover's manifests. The policies and bindings among them must be stored as shipped; all other manifests are
	// ignored.
	Shipped []*unstructured.Unstructured
	Events  events.EventRecorder
	Clock   clock.WithTicker
	// Registry registers the metric. nil means that the metric is not registered.
	Registry prometheus.Registerer
}

// Watch checks periodically that the guard policies are stored as shipped.
type Watch struct {
	Options
	metric prometheus.Gauge
	last   atomic.Pointer[look]
}

// look is the result of the last read.
type look struct {
	// version identifies the stored objects, to compare two reads.
	version string
	// since is when this version was first seen; at is when it was last seen.
	since, at time.Time
	// why describes what is missing or altered; empty when nothing is missing or altered.
	why string
}

// New returns a Watch. [Watch.InForce] returns false until [Watch.Start] has read the policies. New returns an error if Shipped
// lacks a policy or a binding, or if the metric cannot be registered.
func New(o Options) (*Watch, error) {
	w := &Watch{Options: o, metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_guard_policies_in_force",
		Help: "1 while the admission policies that protect the values which drover trusts, and their bindings, are stored as they were shipped, else 0.",
	})}
	w.Shipped = nil
	for _, name := range Names {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			i := slices.IndexFunc(o.Shipped, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
			if i < 0 {
				return nil, fmt.Errorf("finding the shipped guard policies: there is no %s %s", kind, name)
			}
			w.Shipped = append(w.Shipped, o.Shipped[i])
		}
	}
	w.last.Store(&look{why: "the guard policies have not been read yet"})
	if o.Registry != nil {
		if err := o.Registry.Register(w.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return w, nil
}

// InForce reports whether the guard policies and their bindings have been stored as shipped for at least 10 s, as of the last read.
// It makes no call. It returns false before the first read, and when the API server has not answered a read for 3 minutes. An object
// may still have a protected value that was written before the policies were in force.
func (w *Watch) InForce() bool {
	l, now := w.last.Load(), w.Clock.Now()
	return l.why == "" && l.at.Sub(l.since) >= takeUp && now.Sub(l.at) < goodFor
}

// NeedLeaderElection returns true, because only the leader acts on the result of [Watch.InForce].
func (w *Watch) NeedLeaderElection() bool { return true }

// Start reads the policies once a minute until ctx ends. When they are stored as shipped but do not count as in force yet, it reads them
// again after 10 s.
func (w *Watch) Start(ctx context.Context) error {
	periodic.Run(ctx, w.Clock, func(ctx context.Context) time.Duration {
		w.look(ctx)
		if l := w.last.Load(); l.why == "" && !w.InForce() {
			return takeUp
		}
		return lookEvery
	})
	return nil
}

// look reads the policies and bindings, and reports a change.
func (w *Watch) look(ctx context.Context) {
	before, now := w.last.Load(), w.Clock.Now()
	version, why, err := w.read(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && now.Sub(before.at) < goodFor:
		ctrl.LoggerFrom(ctx).Error(err, "Reading the guard policies failed; the previous result stays valid", "inForce", w.InForce())
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

// read returns the versions of the stored policies and bindings, and what is missing or altered.
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

// errNotInForce is logged with the policies that are missing or altered.
var errNotInForce = errors.New("the guard policies are not in force")

// report sets the metric. It logs a change, and records an Event when policies are missing or altered.
func (w *Watch) report(ctx context.Context, before, now *look) {
	w.metric.Set(map[bool]float64{true: 1, false: 0}[now.why == ""])
	if now.why == before.why {
		return
	}
	if now.why == "" {
		ctrl.LoggerFrom(ctx).Info("The guard policies are in place", "policies", Names)
		return
	}
	const remedy = "drover does not trust the values that the guard policies protect; apply the policies of this version: kubectl apply --server-side -k deploy"
	ctrl.LoggerFrom(ctx).Error(errNotInForce, "Values that authors of Machines could have written are not trusted", "why", now.why, "remedy", remedy)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.Shipped[len(w.Shipped)-1].GetName()}}
	w.Events.Eventf(policy, nil, corev1.EventTypeWarning, ReasonNotInForce, "Check", "%s: %s", now.why, remedy)
}
