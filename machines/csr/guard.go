package csr

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/bootstrap"
)

// guardEvery is how often the guard looks.
const guardEvery = 10 * time.Minute

// reasonOthersApprove is the Event's reason.
const reasonOthersApprove = "OthersApprove"

// Guard warns when somebody else would approve what drover refuses: the control plane's own approver takes every request
// of a token whose group may create certificatesigningrequests/nodeclient, in whatever node's name. It says so at the
// start and every 10 minutes: in the log, as an Event about the binding of drover's group, and in the metric
// drover_csr_others_approve.
type Guard struct {
	target   cluster.Cluster
	clock    clock.WithTicker
	recorder events.EventRecorder
	metric   prometheus.Gauge
}

// NewGuard makes a Guard over the cluster where certificates are asked for. A nil registry takes no metric.
func NewGuard(target cluster.Cluster, c clock.WithTicker, registry prometheus.Registerer) (*Guard, error) {
	g := &Guard{target: target, clock: c, recorder: target.GetEventRecorder(name), metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_csr_others_approve",
		Help: "1 while somebody else approves the certificate requests of drover's bootstrap tokens unseen, else 0.",
	})}
	if registry != nil {
		if err := registry.Register(g.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return g, nil
}

// NeedLeaderElection says that one warning is enough.
func (g *Guard) NeedLeaderElection() bool { return true }

// Start looks now and then until ctx ends.
func (g *Guard) Start(ctx context.Context) error {
	ticker := g.clock.NewTicker(guardEvery)
	defer ticker.Stop()
	for {
		g.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look asks once, and says what is wrong.
func (g *Guard) look(ctx context.Context) {
	why, err := g.Others(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "Cannot tell whether others approve certificate requests of bootstrap tokens")
		return
	case why == "":
		g.metric.Set(0)
		return
	}
	g.metric.Set(1)
	ctrl.LoggerFrom(ctx).Info("Others approve certificate requests of drover's bootstrap tokens: a stolen token could become any node; remove what allows it", "allowedBy", why)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "drover:node-bootstrapper"}}
	g.recorder.Eventf(binding, nil, corev1.EventTypeWarning, reasonOthersApprove, "Check",
		"others approve certificate requests of drover's bootstrap tokens, unseen by drover; remove what allows it: %s", why)
}

// Others says what lets others approve for drover's tokens, in the authorizer's own words; empty when nothing does.
func (g *Guard) Others(ctx context.Context) (string, error) {
	var found []string
	for _, may := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "nodeclient"},
		{Verb: "update", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval"},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: bootstrap.UserPrefix + "000000", Groups: []string{"system:bootstrappers", bootstrap.Group, "system:authenticated"},
			ResourceAttributes: &may,
		}}
		if err := g.target.GetClient().Create(ctx, review); err != nil {
			return "", fmt.Errorf("asking what bootstrap tokens may do: %w", err)
		}
		if review.Status.Allowed {
			found = append(found, fmt.Sprintf("%s %s/%s: %s", may.Verb, may.Resource, may.Subresource, review.Status.Reason))
		}
	}
	return strings.Join(found, "; "), nil
}
