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

// ReasonDeadWebhook is the reason of the Event about a webhook that nobody answers.
const ReasonDeadWebhook = "WebhookUnanswered"

const (
	// lookEvery is the time between two looks at the webhooks.
	lookEvery = 5 * time.Minute
	// lookTimeout bounds one look.
	lookTimeout = 10 * time.Second
)

// errDead is logged with the webhook.
var errDead = errors.New("nobody answers an admission webhook of drover's kinds")

// WatchOptions make a [Watch].
type WatchOptions struct {
	// Reader asks the API server itself, never a cache.
	Reader client.Reader
	Events events.EventRecorder
	Clock  clock.WithTicker
	// Registry takes the metric; nil: nobody does.
	Registry prometheus.Registerer
}

// Watch looks every 5 minutes for admission webhooks of Machines, sets and deployments whose Service is gone. One of
// machine-controller's that was left behind has the API server refuse every write of these kinds.
type Watch struct {
	WatchOptions
	metric prometheus.Gauge
	// told are the webhooks that were reported, with the reason.
	told map[string]string
}

// NewWatch returns a Watch. Errors: the metric could not be registered.
func NewWatch(o WatchOptions) (*Watch, error) {
	w := &Watch{WatchOptions: o, told: map[string]string{}, metric: prometheus.NewGauge(prometheus.GaugeOpts{
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

// NeedLeaderElection reports that only the leader looks.
func (w *Watch) NeedLeaderElection() bool { return true }

// Start looks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	ticker := w.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look reads the webhooks, and reports each one that nobody answers once.
func (w *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all, err := Read(ctx, w.Reader)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("The admission webhooks could not be looked at", "cause", err.Error())
		return
	}
	found := map[string]string{}
	for _, hook := range all {
		why, err := Dead(ctx, w.Reader, hook)
		if apierrors.IsForbidden(err) {
			// It is in a namespace that drover does not look into.
			continue
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("The Service of a webhook could not be looked at", "webhook", hook.String(), "cause", err.Error())
			continue
		}
		if why == "" {
			continue
		}
		found[hook.String()] = why
		if w.told[hook.String()] != why {
			w.report(ctx, hook, why)
		}
	}
	w.told = found
	w.metric.Set(float64(len(found)))
}

// report logs a webhook that nobody answers, and records an Event about its configuration.
func (w *Watch) report(ctx context.Context, hook Webhook, why string) {
	effect := "is passed over"
	if hook.Refuses {
		effect = "refuses every write"
	}
	text := fmt.Sprintf("%s %s of %s, since %s. If it is left of machine-controller, delete it: %s", hook, effect, hook.Resources, why, hook.Remedy())
	ctrl.LoggerFrom(ctx).Error(errDead, "An admission webhook is not answered", "why", text)
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
