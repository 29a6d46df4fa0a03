package reach

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// probeEvery is the interval between two probes of the API servers, and also how long a probe waits for one answer.
const probeEvery = 5 * time.Second

// Options configure a [Watch].
type Options struct {
	// Control reads from the API server of the cluster with the Machines, Target from the API server of the cluster with the
	// Nodes. Both read without a cache. A nil Target means that there is only one cluster.
	Control, Target client.Reader
	Clock           clock.PassiveClock
	// Lease names the lease in the control cluster that the leading replica renews. Default: there is no lease.
	Lease types.NamespacedName
}

var descFrozen = prometheus.NewDesc("drover_frozen_api",
	"1 while no Machine or server is created, no Machine is replaced and no orphan is deleted, because the API server of this cluster (control or target) cannot be reached or has only just answered again, else 0.",
	[]string{"cluster"}, nil)

// Watch reports whether the API servers answer, and exports the result as a metric. Every replica runs one. A nil Watch always reports
// that the API servers answer.
type Watch struct {
	Options

	mu sync.Mutex
	// servers are the API server of the control cluster and, if it is another one, that of the target cluster.
	servers []*server
	// renewal is the resourceVersion of the lease when its last renewal was seen, and held is the time of that. Before the first renewal,
	// held is when the lease was first read; zero means that it was not read yet.
	renewal string
	held    time.Time
	// stopped reports whether the log says that decisions have stopped.
	stopped bool
}

// New returns a Watch. Until the first answer of each API server, it reports that they cannot be reached.
func New(o Options) *Watch {
	w := &Watch{Options: o}
	control := &server{cluster: "control", name: "the API server", ask: w.askControl}
	if w.servers = []*server{control}; o.Target != nil {
		control.name += " of the cluster with the Machines"
		w.servers = append(w.servers, &server{cluster: "target", name: "the API server of the cluster with the Nodes", ask: func(ctx context.Context) error {
			nodes := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
			return o.Target.List(ctx, nodes, client.Limit(1))
		}})
	}
	return w
}

// NeedLeaderElection returns false: every replica probes, not only the leader.
func (w *Watch) NeedLeaderElection() bool { return false }

// Start probes the API servers every 5 s until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, w.Probe, probeEvery)
	return nil
}

// Probe asks the API servers once, one after the other, and logs whether decisions stop or continue. An answer that refuses the request is
// an answer, too.
func (w *Watch) Probe(ctx context.Context) {
	for _, s := range w.servers {
		limited, cancel := context.WithTimeout(ctx, probeEvery)
		if err := s.ask(limited); err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			w.answered(s.cluster)
		}
		cancel()
	}
	if stale, _ := w.Stale(); (stale != "") != w.stopped {
		w.stopped = stale != ""
		ctrl.LoggerFrom(ctx).Info("Whether Machines and servers are created, Machines are replaced and orphans are deleted has changed", "stopped", w.stopped, "cause", stale)
	}
}

// askControl reads the lease or, where there is none, a MachineDeployment. A lease that has a holder and was not renewed counts as not
// held. A renewal is a change of the object, because the time in it is from the clock of another machine.
func (w *Watch) askControl(ctx context.Context) error {
	if w.Lease.Name == "" {
		return w.Control.List(ctx, &v1alpha1.MachineDeploymentList{}, client.Limit(1))
	}
	now, lease := w.Clock.Now(), &coordinationv1.Lease{}
	err := w.Control.Get(ctx, w.Lease, lease)
	w.mu.Lock()
	defer w.mu.Unlock()
	if renewed := err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "" && lease.ResourceVersion != w.renewal; renewed || w.held.IsZero() {
		w.renewal, w.held = lease.ResourceVersion, now
	}
	return err
}

// AnsweredControl records that the API server of the control cluster has answered.
func (w *Watch) AnsweredControl() { w.answered("control") }

// AnsweredTarget records that the API server of the target cluster has answered.
func (w *Watch) AnsweredTarget() { w.answered("target") }

func (w *Watch) answered(cluster string) {
	w.each(func(s *server, now time.Time) {
		if s.cluster == cluster {
			s.answer(now)
		}
	})
}

func (w *Watch) each(do func(s *server, now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers {
		do(s, w.Clock.Now())
	}
}

// Stale returns why the caches may be out of date: an API server is unreachable, or has answered again for less than 30 s. It returns an
// empty reason when they can be relied on. While there is a reason, no Machine or server is created, and no controller decides or
// collects anything. Deletions that have begun continue. since is the time from which the caches can be relied on: durations, for
// example how long a Node has not been Ready, are measured from no earlier than this time.
func (w *Watch) Stale() (why string, since time.Time) {
	if w == nil {
		return "", time.Time{}
	}
	w.each(func(s *server, now time.Time) {
		why = cmp.Or(why, s.stale(now))
		if s.trusted.After(since) {
			since = s.trusted
		}
	})
	return why, since
}

// Away returns why one of the API servers cannot be reached at present; empty when both can be reached.
func (w *Watch) Away() (why string) {
	w.each(func(s *server, now time.Time) { why = cmp.Or(why, s.away(now)) })
	return why
}

// Leaderless returns how long no replica has held the lease; 0 while that is not known.
func (w *Watch) Leaderless() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held.IsZero() {
		return 0
	}
	return w.Clock.Since(w.held)
}

// Describe implements prometheus.Collector.
func (*Watch) Describe(out chan<- *prometheus.Desc) { out <- descFrozen }

// Collect implements prometheus.Collector.
func (w *Watch) Collect(out chan<- prometheus.Metric) {
	w.each(func(s *server, now time.Time) {
		out <- prometheus.MustNewConstMetric(descFrozen, prometheus.GaugeValue, map[bool]float64{true: 1}[s.stale(now) != ""], s.cluster)
	})
}
