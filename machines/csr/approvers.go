package csr

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/periodic"
)

// approverCheckEvery is the interval between two checks for other approvers.
const approverCheckEvery = 10 * time.Minute

// reasonOthersApprove is the reason of the Event about other approvers.
const reasonOthersApprove = "OthersApprove"

// ApproverCheck warns when another program would approve certificate requests that drover refuses. The control plane's own approver
// approves every request that is made with certain tokens, for any node name: the tokens whose group may create
// certificatesigningrequests/nodeclient. ApproverCheck warns at the start and every 10 minutes: in the log, by an Event about the
// ClusterRoleBinding of the group of drover's tokens, and in the metric drover_csr_others_approve.
type ApproverCheck struct {
	client   client.Client
	clock    clock.Clock
	recorder events.EventRecorder
	metric   prometheus.Gauge
}

// NewApproverCheck returns an ApproverCheck of the cluster where certificates are requested. It registers the metric.
func NewApproverCheck(target cluster.Cluster, c clock.Clock, registry prometheus.Registerer) (*ApproverCheck, error) {
	g := &ApproverCheck{client: target.GetClient(), clock: c, recorder: target.GetEventRecorder(name), metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_csr_others_approve",
		Help: "1 while another program approves the certificate requests of bootstrap tokens without drover, else 0.",
	})}
	return g, registry.Register(g.metric)
}

// NeedLeaderElection returns true, so that only one replica of drover warns.
func (g *ApproverCheck) NeedLeaderElection() bool { return true }

// Start checks at intervals until ctx ends.
func (g *ApproverCheck) Start(ctx context.Context) error {
	periodic.Every(ctx, g.clock, approverCheckEvery, g.check)
	return nil
}

// check checks once, and warns.
func (g *ApproverCheck) check(ctx context.Context) {
	why, err := g.Others(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "Failed to check whether other programs approve certificate requests of bootstrap tokens")
	case why == "":
		g.metric.Set(0)
	default:
		g.metric.Set(1)
		ctrl.LoggerFrom(ctx).Info("Other programs approve certificate requests of bootstrap tokens: a stolen token could become any node; remove the rights that allow this", "allowedBy", why)
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "drover:node-bootstrapper"}}
		g.recorder.Eventf(binding, nil, corev1.EventTypeWarning, reasonOthersApprove, "Check",
			"other programs approve certificate requests of bootstrap tokens without drover; remove the rights that allow this: %s", why)
	}
}

// Others describes the permissions of joining servers' bootstrap tokens that allow another program to approve the requests made with the
// tokens: those of drover and those of operating-system-manager. For each permission it includes the reason that the API server's
// authorizer states. It returns "" when the tokens have no such permission.
func (g *ApproverCheck) Others(ctx context.Context) (string, error) {
	var found []string
	for _, group := range []string{bootstrap.Group, bootstrap.GroupOSM} {
		for _, may := range []authorizationv1.ResourceAttributes{{Verb: "create", Subresource: "nodeclient"}, {Verb: "update", Subresource: "approval"}} {
			may.Group, may.Resource = certificatesv1.GroupName, "certificatesigningrequests"
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: bootstrap.UserPrefix + "000000", Groups: []string{"system:bootstrappers", group, "system:authenticated"},
				ResourceAttributes: &may,
			}}
			if err := g.client.Create(ctx, review); err != nil {
				return "", fmt.Errorf("asking what bootstrap tokens may do: %w", err)
			}
			if review.Status.Allowed {
				found = append(found, fmt.Sprintf("%s may %s %s/%s: %s", group, may.Verb, may.Resource, may.Subresource, review.Status.Reason))
			}
		}
	}
	return strings.Join(found, "; "), nil
}
