package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReasonDeadWebhook is the reason of the Event about a webhook that does not answer.
const ReasonDeadWebhook = "WebhookUnanswered"

const (
	// lookEvery is the interval between two checks of the webhooks while the API server refuses no write.
	lookEvery = 5 * time.Minute
	// lookPause is the shortest time between two checks.
	lookPause = 10 * time.Second
	// lookTimeout limits the duration of one check.
	lookTimeout = 10 * time.Second
)

// errDead is logged for a webhook that does not answer.
var errDead = errors.New("an admission webhook of drover's kinds does not answer")

// WatchOptions configure a [Watch].
type WatchOptions struct {
	// Reader reads from the API server itself, without a cache.
	Reader client.Reader
	Events events.EventRecorder
	Clock  clock.Clock
	// Refusals reports that the API server refuses writes because of a webhook; nil means that nothing reports it.
	Refusals Refusals
	// Registry registers the metric; nil means no metric.
	Registry prometheus.Registerer
}

// Watch checks for admission webhooks of Machines, sets or deployments whose Service no longer exists: every 5 minutes, and when the API
// server has refused a write because a webhook does not answer. While such a leftover webhook of machine-controller exists, the API server
// refuses every write of these kinds.
type Watch struct {
	WatchOptions
	metric prometheus.Gauge
	// reported holds the webhooks that were reported, with the reason.
	reported map[string]string
}

// NewWatch returns a Watch. It returns an error when the metric cannot be registered.
func NewWatch(o WatchOptions) (*Watch, error) {
	w := &Watch{WatchOptions: o, reported: map[string]string{}, metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_unanswered_webhooks",
		Help: "Admission webhooks of Machines, MachineSets or MachineDeployments whose Service does not exist or has no ready endpoint.",
	})}
	if o.Registry != nil {
		if err := o.Registry.Register(w.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return w, nil
}

// NeedLeaderElection returns true, so that only the leader checks.
func (w *Watch) NeedLeaderElection() bool { return true }

// Start checks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-w.Clock.After(lookPause):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Refusals:
		case <-w.Clock.After(lookEvery - lookPause):
		}
	}
}

// look reads the webhooks. It reports each webhook that does not answer, but only once.
func (w *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all, err := Read(ctx, w.Reader)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Failed to read the admission webhooks", "cause", err.Error())
		return
	}
	found := map[string]string{}
	for _, hook := range all {
		why, err := Dead(ctx, w.Reader, hook)
		if apierrors.IsForbidden(err) {
			// Skip the webhook: drover may not read Services of its namespace.
			continue
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Failed to read the Service of an admission webhook", "webhook", hook.String(), "cause", err.Error())
			continue
		}
		if why == "" {
			continue
		}
		found[hook.String()] = why
		if w.reported[hook.String()] != why {
			w.report(ctx, hook, why)
		}
	}
	w.reported = found
	w.metric.Set(float64(len(found)))
}

// report logs a webhook that does not answer, and records an Event about its configuration.
func (w *Watch) report(ctx context.Context, hook Webhook, why string) {
	effect := "is ignored"
	if hook.Refuses {
		effect = "refuses every write"
	}
	text := fmt.Sprintf("%s %s of %s: %s. If machine-controller left it behind, delete it: %s", hook, effect, hook.Resources, why, hook.Remedy())
	ctrl.LoggerFrom(ctx).Error(errDead, "An admission webhook does not answer", "why", text)
	w.Events.Eventf(hook.object(), nil, corev1.EventTypeWarning, ReasonDeadWebhook, "Check", "%s", text)
}

// object returns the webhook's configuration, for an Event.
func (w Webhook) object() runtime.Object {
	meta := metav1.ObjectMeta{Name: w.Configuration}
	if w.Kind == "MutatingWebhookConfiguration" {
		return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	}
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
}
