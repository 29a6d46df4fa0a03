package reach

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// probeEvery is the interval between two probes of the API servers, and also how long a probe waits for an answer.
const probeEvery = 5 * time.Second

// Options configure a [Watch].
type Options struct {
	// Control reads from the API server of the cluster with the Machines, Target from the API server of the cluster with the
	// Nodes. Both read without a cache. A nil Target means that there is only one cluster.
	Control, Target client.Reader
	// Clock defaults to the real clock.
	Clock clock.WithTicker
	// Lease names the lease in the control cluster that the leading replica renews. Default: there is no lease.
	Lease types.NamespacedName
}

// Watch reports whether the API servers answer, and exports the result as a metric. A nil Watch always reports that the API
// servers answer.
type Watch struct {
	options Options

	mu sync.Mutex
	// control and target are the histories of the two API servers; target is nil when there is only one cluster.
	control, target *history
	leadership      leadership
	// reported reports whether the freeze has been logged.
	reported bool
}

// New returns a Watch. Its state is frozen until the first answer of each API server.
func New(o Options) *Watch {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	w := &Watch{options: o, control: &history{name: "the API server", began: o.Clock.Now()}}
	if o.Target != nil {
		w.control.name = "the API server of the cluster with the Machines"
		w.target = &history{name: "the API server of the cluster with the Nodes", began: o.Clock.Now()}
	}
	return w
}

// NeedLeaderElection returns false: every replica probes, not only the leader.
func (w *Watch) NeedLeaderElection() bool { return false }

// Start probes the API servers every 5 s until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	tick := w.options.Clock.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		w.Probe(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// Probe probes both API servers once. It returns when both have answered, or after 5 s.
func (w *Watch) Probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		if w.askControl(ctx) {
			w.AnsweredControl()
		}
	})
	if w.options.Target != nil {
		both.Go(func() {
			if answers(w.options.Target.List(ctx, metadataOf("NodeList"), client.Limit(1))) {
				w.answered(w.target)
			}
		})
	}
	both.Wait()
	w.report(ctx)
}

// askControl reports whether the API server of the control cluster answers. If a lease is configured, reading the lease is
// the probe. Otherwise, and when that read fails, it lists MachineDeployments.
func (w *Watch) askControl(ctx context.Context) bool {
	if w.options.Lease.Name != "" && w.readLease(ctx) {
		return true
	}
	return w.options.Control.List(ctx, &v1alpha1.MachineDeploymentList{}, client.Limit(1)) == nil
}

// readLease reads the lease, and reports whether the API server answered.
func (w *Watch) readLease(ctx context.Context) bool {
	now := w.options.Clock.Now()
	w.mu.Lock()
	w.leadership.begin(now)
	w.mu.Unlock()
	lease := &coordinationv1.Lease{}
	if err := w.options.Control.Get(ctx, w.options.Lease, lease); err != nil {
		return apierrors.IsNotFound(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leadership.see(lease, now)
	return true
}

// answers reports whether an error came from the API server as an answer, for example a refusal.
func answers(err error) bool {
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// metadataOf returns an empty list for reading the metadata of objects of a kind in the core API group.
func metadataOf(kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return list
}

// AnsweredControl records that the API server of the control cluster has answered a call that was not a probe.
func (w *Watch) AnsweredControl() { w.answered(w.control) }

// AnsweredTarget records that the API server of the target cluster has answered a call that was not a probe.
func (w *Watch) AnsweredTarget() {
	if w.target != nil {
		w.answered(w.target)
	}
}

func (w *Watch) answered(h *history) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.answer(w.options.Clock.Now())
}

// State returns whether the caches can be relied on at present.
func (w *Watch) State() State {
	if w == nil {
		return State{}
	}
	states := w.states()
	return together(states["control"], states["target"])
}

// states returns the state of each cluster by name: control, and also target if it is a separate cluster.
func (w *Watch) states() map[string]State {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	states := map[string]State{"control": w.control.state(now)}
	if w.target != nil {
		states["target"] = w.target.state(now)
	}
	return states
}

// Away returns why one of the API servers cannot be reached at present; empty when both can be reached.
func (w *Watch) Away() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	if why := w.control.away(now); why != "" || w.target == nil {
		return why
	}
	return w.target.away(now)
}

// Leaderless returns how long no replica has held the lease; 0 while that is not known.
func (w *Watch) Leaderless() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leadership.leaderless(w.options.Clock.Now())
}

// report logs the start and the end of a freeze.
func (w *Watch) report(ctx context.Context) {
	now := w.State()
	w.mu.Lock()
	changed := now.Frozen != w.reported
	w.reported = now.Frozen
	w.mu.Unlock()
	log := ctrl.LoggerFrom(ctx)
	switch {
	case changed && now.Frozen:
		log.Info("Decisions have stopped: no Machine or server is created, no Machine is replaced, and no orphan is deleted", "cause", now.Message)
	case changed:
		log.Info("The API servers answer: decisions continue")
	}
}
