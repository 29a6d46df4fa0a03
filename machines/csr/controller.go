package csr

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

const name = "drover-csr"

// indexNode is the field index of Machines by the name of their Node: recorded, or to come.
const indexNode = "drover.csr.node"

// How soon a request is looked at again that cannot be decided yet, and for how long.
const (
	retry        = time.Second
	retryLong    = 15 * time.Second
	retryLongAge = time.Minute
	patience     = time.Hour
)

// Options make a [Reconciler].
type Options struct {
	// Control is where the Machines live, Target where their Nodes live and ask for certificates.
	Control, Target cluster.Cluster
	Clock           clock.PassiveClock
}

// Reconciler approves the certificate requests of Machines' kubelets.
type Reconciler struct {
	Options
}

// New makes a Reconciler.
func New(o Options) *Reconciler { return &Reconciler{Options: o} }

// SetupWithManager makes the manager run the controller, on requests.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	err := r.Control.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Machine{}, indexNode, func(o client.Object) []string {
		if m, ok := o.(*v1alpha1.Machine); ok {
			return []string{m.ServerName()}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Machines by node: %w", err)
	}
	c, err := controller.New(name, mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: 4})
	if err != nil {
		return fmt.Errorf("making the approver: %w", err)
	}
	requests := source.Kind(r.Target.GetCache(), &certificatesv1.CertificateSigningRequest{},
		&handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{})
	if err := c.Watch(requests); err != nil {
		return fmt.Errorf("watching certificate requests: %w", err)
	}
	return nil
}

// Reconcile decides about one request.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var o certificatesv1.CertificateSigningRequest
	if err := r.Target.GetClient().Get(ctx, req.NamespacedName, &o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	request := read(&o)
	if request.Decided {
		return ctrl.Result{}, nil
	}
	m, n, err := r.gather(ctx, request)
	if err != nil {
		return ctrl.Result{}, err
	}
	v := Decide(request, m, n)
	log := ctrl.LoggerFrom(ctx).WithValues("user", request.User, "signer", request.Signer, "reason", v.Reason)
	switch v.Outcome {
	case Approve, Deny:
		log.Info("Certificate request decided", "outcome", v.Outcome)
		return ctrl.Result{}, r.write(ctx, &o, v)
	case Wait:
		return ctrl.Result{RequeueAfter: r.again(&o)}, nil
	}
	log.Info("Certificate request left alone")
	return ctrl.Result{}, nil
}

// again says when to look at a waiting request again; 0: never.
func (r *Reconciler) again(o *certificatesv1.CertificateSigningRequest) time.Duration {
	switch age := r.Clock.Since(o.CreationTimestamp.Time); {
	case age > patience:
		return 0
	case age > retryLongAge:
		return retryLong
	}
	return retry
}

// write records the verdict; the control plane's signer does the rest.
func (r *Reconciler) write(ctx context.Context, o *certificatesv1.CertificateSigningRequest, v Verdict) error {
	kind := certificatesv1.CertificateApproved
	if v.Outcome == Deny {
		kind = certificatesv1.CertificateDenied
	}
	o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Drover" + string(v.Outcome), Message: v.Reason,
		LastUpdateTime: metav1.NewTime(r.Clock.Now()),
	})
	err := r.Target.GetClient().SubResource("approval").Update(ctx, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the verdict on request %s: %w", o.Name, err)
	}
	return nil
}

// gather finds the Machine and the Node that the request is about.
func (r *Reconciler) gather(ctx context.Context, request *Request) (*Machine, *Node, error) {
	var m *v1alpha1.Machine
	var err error
	group := bootstrap.Group
	if id, ok := strings.CutPrefix(request.User, bootstrap.UserPrefix); ok {
		m, group, err = r.byToken(ctx, id, request.CommonName)
	} else if node, ok := strings.CutPrefix(request.User, nodeUserPrefix); ok {
		m, err = r.byNode(ctx, node)
	}
	if err != nil || m == nil {
		return nil, nil, err
	}
	known := describe(m, group)
	same, err := r.named(ctx, known.ServerName)
	if err != nil {
		return nil, nil, err
	}
	known.Ambiguous = len(same) > 1
	var node corev1.Node
	err = r.Target.GetClient().Get(ctx, types.NamespacedName{Name: m.ServerName()}, &node)
	if apierrors.IsNotFound(err) {
		return known, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading node %s: %w", m.ServerName(), err)
	}
	return known, &Node{Server: lastPart(node.Spec.ProviderID)}, nil
}

// byToken finds the Machine that a bootstrap token was made for: the very one, not one of the same name. A token that is
// shared by a deployment's Machines stands for the one that the request names; it must be of that deployment.
func (r *Reconciler) byToken(ctx context.Context, id, commonName string) (*v1alpha1.Machine, string, error) {
	holder, err := bootstrap.HolderOf(ctx, r.Target.GetAPIReader(), id)
	if err != nil {
		return nil, "", err
	}
	if holder.Shared() {
		m, err := r.ofDeployment(ctx, holder, commonName)
		return m, bootstrap.GroupOSM, err
	}
	if holder.UID == "" {
		return nil, "", nil
	}
	var m v1alpha1.Machine
	if err := r.Control.GetClient().Get(ctx, holder.Machine, &m); err != nil {
		return nil, "", client.IgnoreNotFound(err)
	}
	if m.UID != holder.UID {
		return nil, "", nil
	}
	return &m, bootstrap.Group, nil
}

func (r *Reconciler) ofDeployment(ctx context.Context, holder bootstrap.Holder, commonName string) (*v1alpha1.Machine, error) {
	node, ok := strings.CutPrefix(commonName, nodeUserPrefix)
	if !ok {
		return nil, nil
	}
	m, err := r.byNode(ctx, node)
	if err != nil || m == nil {
		return nil, err
	}
	owners, err := bootstrap.OwnersOf(ctx, r.Control.GetClient(), m)
	if err != nil || !holder.Serves(owners.Deployment) {
		return nil, err
	}
	return m, nil
}

// byNode finds the Machine whose node has that name. Two that claim the same name are none.
func (r *Reconciler) byNode(ctx context.Context, node string) (*v1alpha1.Machine, error) {
	machines, err := r.named(ctx, node)
	if err != nil || len(machines) != 1 {
		return nil, err
	}
	return &machines[0], nil
}

// named are the Machines whose server has that name.
func (r *Reconciler) named(ctx context.Context, server string) ([]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	if err := r.Control.GetClient().List(ctx, &list, client.MatchingFields{indexNode: server}); err != nil {
		return nil, fmt.Errorf("listing the Machines of node %s: %w", server, err)
	}
	return list.Items, nil
}

func describe(m *v1alpha1.Machine, group string) *Machine {
	out := &Machine{
		ServerName: m.ServerName(),
		Group:      group,
		Deleting:   m.DeletionTimestamp != nil,
		Joined:     m.Status.NodeRef != nil && m.Status.NodeRef.Name == m.ServerName(),
	}
	if m.Spec.ProviderID != nil {
		out.Server = lastPart(*m.Spec.ProviderID)
	}
	for _, a := range m.Status.Addresses {
		out.Addresses = append(out.Addresses, a.Address)
	}
	return out
}

// lastPart is the server's id, with which both forms of a provider ID end.
func lastPart(providerID string) string {
	return strings.ToLower(providerID[strings.LastIndex(providerID, "/")+1:])
}
