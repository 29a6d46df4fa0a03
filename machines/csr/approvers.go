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

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// guardEvery is how often the guard looks.
const guardEvery = 10 * time.Minute

// reasonOthersApprove is the Event's reason.
const reasonOthersApprove = "OthersApprove"

// Guard warns when somebody else would approve what drover refuses: the control plane's own approver takes every request
// of a token whose group may create certificatesigningrequests/nodeclient, in whatever node's name. It says so at the
// start and every 10 minutes: in the log, as an Event about the binding of drover's group, as a condition of each
// MachineDeployment, and in the metric drover_csr_others_approve.
type Guard struct {
	GuardOptions
	recorder events.EventRecorder
	metric   prometheus.Gauge
}

// GuardOptions make a [Guard].
type GuardOptions struct {
	// Control is where the Machines live, Target where certificates are asked for.
	Control, Target cluster.Cluster
	Clock           clock.WithTicker
	// Registry takes the metric; nil: nobody does.
	Registry prometheus.Registerer
}

// NewGuard makes a Guard.
func NewGuard(o GuardOptions) (*Guard, error) {
	g := &Guard{GuardOptions: o, recorder: o.Target.GetEventRecorder(name), metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_csr_others_approve",
		Help: "1 while somebody else approves the certificate requests of bootstrap tokens unseen by drover, else 0.",
	})}
	if o.Registry != nil {
		if err := o.Registry.Register(g.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return g, nil
}

// NeedLeaderElection says that one warning is enough.
func (g *Guard) NeedLeaderElection() bool { return true }

// Start looks now and then until ctx ends.
func (g *Guard) Start(ctx context.Context) error {
	ticker := g.Clock.NewTicker(guardEvery)
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
	}
	if err := g.tell(ctx, why); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The warning about who approves could not be written everywhere")
	}
	if why == "" {
		g.metric.Set(0)
		return
	}
	g.metric.Set(1)
	ctrl.LoggerFrom(ctx).Info("Others approve certificate requests of bootstrap tokens: a stolen token could become any node; remove what allows it", "allowedBy", why)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "drover:node-bootstrapper"}}
	g.recorder.Eventf(binding, nil, corev1.EventTypeWarning, reasonOthersApprove, "Check",
		"others approve certificate requests of bootstrap tokens, unseen by drover; remove what allows it: %s", why)
}

// Others says what lets others approve for the tokens that servers join with, in the authorizer's own words; empty when
// nothing does.
func (g *Guard) Others(ctx context.Context) (string, error) {
	groups, err := g.groups(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, group := range groups {
		for _, may := range []authorizationv1.ResourceAttributes{
			{Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "nodeclient"},
			{Verb: "update", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval"},
		} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: bootstrap.UserPrefix + "000000", Groups: []string{"system:bootstrappers", group, "system:authenticated"},
				ResourceAttributes: &may,
			}}
			if err := g.Target.GetClient().Create(ctx, review); err != nil {
				return "", fmt.Errorf("asking what bootstrap tokens may do: %w", err)
			}
			if review.Status.Allowed {
				found = append(found, fmt.Sprintf("%s may %s %s/%s: %s", group, may.Verb, may.Resource, may.Subresource, review.Status.Reason))
			}
		}
	}
	return strings.Join(found, "; "), nil
}

// groups are those whose tokens join: drover's, and operating-system-manager's while it has a deployment.
func (g *Guard) groups(ctx context.Context) ([]string, error) {
	var list v1alpha1.MachineDeploymentList
	if err := g.Control.GetClient().List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	for i := range list.Items {
		if bootstrap.ManagedByOSM(&list.Items[i]) {
			return []string{bootstrap.Group, bootstrap.GroupOSM}, nil
		}
	}
	return []string{bootstrap.Group}, nil
}
