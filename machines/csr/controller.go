package csr

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

const name = "drover-csr"

// indexNode is the field index of Machines by the name of their server. The Node has the same name.
const indexNode = "drover.csr.node"

// While a request cannot be decided yet, drover tries again every second. After a minute it tries every 15 s, and after an hour it
// stops. After shownAge an Event of the Machine has the reason.
const (
	retry        = time.Second
	retryLong    = 15 * time.Second
	retryLongAge = time.Minute
	shownAge     = 2 * time.Minute
	patience     = time.Hour
)

// Reasons of Events: about Machines that want the same node name, and about a Machine whose node waits for a certificate.
const (
	reasonNameTaken     = "NodeNameTaken"
	reasonNameAmbiguous = "NodeNameAmbiguous"
	reasonUndecided     = "CertificateUndecided"
)

// warnEvery is the least time between two Events about the same Machine.
const warnEvery = 10 * time.Minute

// mostWarned is the number of Machines about which drover remembers that it has warned. When there are more, it forgets the oldest first,
// and may warn about them earlier.
const mostWarned = 10_000

// Servers returns the servers of Machines from the cloud's inventory.
type Servers interface {
	// ServerOf returns the living server whose owner tag names the Machine, with the addresses that the cloud has for the server; nil when
	// there is no such server. It returns an error when the inventory is incomplete. It makes no call to the cloud.
	ServerOf(ctx context.Context, m *v1alpha1.Machine) (*cloud.Server, error)
	// ServerID returns the server ID in a provider ID, or "" when the provider ID contains none.
	ServerID(providerID string) cloud.ServerID
}

// Options configure a [Reconciler].
type Options struct {
	// Control is the cluster with the Machines. Target is the cluster with their Nodes, where certificates are requested.
	Control, Target cluster.Cluster
	Clock           clock.PassiveClock
	// Servers is required.
	Servers Servers
	// Reserved holds the operator's settings: addresses and names for which no node may have a certificate, in addition to those that drover
	// reads from the cluster. It may be zero.
	Reserved Reserved
}

// Reconciler approves the certificate requests of Machines' kubelets.
type Reconciler struct {
	Options
	recorder events.EventRecorder
	// cluster has the settings that were read from the cluster last; nil means none.
	cluster atomic.Pointer[clusterReserved]
	// warned has the UID of each Machine about which drover has recorded an Event within warnEvery.
	warned *cache.LRUExpireCache
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, recorder: o.Control.GetEventRecorder(name), warned: cache.NewLRUExpireCacheWithClock(mostWarned, o.Clock)}
}

// retries returns the back-off of requests whose reconcile returned an error: 5 ms, doubled each time, at most a minute. The default of
// controller-runtime grows to 17 minutes, so it would delay requests long after the API server has recovered.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, time.Minute)
}

// SetupWithManager adds the controller to the manager. The controller reconciles certificate requests.
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
	return ctrl.NewControllerManagedBy(mgr).Named(name).
		WatchesRawSource(source.Kind(r.Target.GetCache(), &certificatesv1.CertificateSigningRequest{},
			&handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: retries()}).
		Complete(r)
}

// Reconcile decides one certificate request, and writes the decision into it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var o certificatesv1.CertificateSigningRequest
	if err := r.Target.GetClient().Get(ctx, req.NamespacedName, &o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	request := read(&o)
	if request.Decided {
		return ctrl.Result{}, nil
	}
	f, claims, err := r.gather(ctx, request)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("collecting the facts about request %s: %w", o.Name, err)
	}
	r.warn(claims)
	v := Decide(request, f)
	log := ctrl.LoggerFrom(ctx).WithValues("user", request.Username, "signer", request.SignerName, "reason", v.Reason)
	switch v.Outcome {
	case Approve, Deny:
		log.Info("Decided a certificate request", "outcome", v.Outcome)
		return ctrl.Result{}, r.write(ctx, &o, v)
	case Wait:
		log.V(1).Info("Certificate request waits")
		r.report(f.Machine, &o, v)
		return ctrl.Result{RequeueAfter: r.again(&o)}, nil
	}
	log.Info("Left a certificate request alone")
	return ctrl.Result{}, nil
}

// again returns the time until drover tries again to decide a waiting request; 0 means never.
func (r *Reconciler) again(o *certificatesv1.CertificateSigningRequest) time.Duration {
	switch age := r.Clock.Since(o.CreationTimestamp.Time); {
	case age > patience:
		return 0
	case age > retryLongAge:
		return retryLong
	}
	return retry
}

// write writes the verdict into the request. After an approval, the signer of the control plane issues the certificate.
func (r *Reconciler) write(ctx context.Context, o *certificatesv1.CertificateSigningRequest, v Verdict) error {
	kind := map[Outcome]certificatesv1.RequestConditionType{Approve: certificatesv1.CertificateApproved, Deny: certificatesv1.CertificateDenied}[v.Outcome]
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

// warn records an Event on each Machine that gets no certificate because another Machine has its node name.
func (r *Reconciler) warn(c Contenders) {
	for _, m := range c.Squatters {
		r.event(m, reasonNameTaken, "%s: no certificate is approved for this Machine; give it another name", c.contested(m))
	}
	for _, m := range c.Equal {
		r.event(m, reasonNameAmbiguous, "%s: no certificate is approved for them until only one is left", c.contested(m))
	}
}

// report records an Event about a request that has waited for minutes. Without its certificate a node cannot join, or serves no logs.
func (r *Reconciler) report(m *Machine, o *certificatesv1.CertificateSigningRequest, v Verdict) {
	if created := o.CreationTimestamp.Time; r.Clock.Since(created) >= shownAge {
		r.event(m, reasonUndecided, "certificate request %s for %s waits: %s; drover tries again until %s",
			o.Name, o.Spec.SignerName, v.Reason, created.Add(patience).UTC().Format(time.RFC3339))
	}
}

func (r *Reconciler) event(m *Machine, reason, note string, args ...any) {
	if _, recently := r.warned.Get(m.UID); recently {
		return
	}
	r.warned.Add(m.UID, nil, warnEvery)
	r.recorder.Eventf(m.Machine, nil, corev1.EventTypeWarning, reason, "ApproveCertificate", note, args...)
}
