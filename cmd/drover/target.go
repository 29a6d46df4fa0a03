package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/drain"
)

const (
	// targetTimeout is how long drover waits for the target cluster's version when it starts.
	targetTimeout = 5 * time.Second
	// targetRetry is the interval at which drover calls a target cluster that does not answer. targetSays is the interval at which
	// the log reports that drover waits for it.
	targetRetry = 2 * time.Second
	targetSays  = time.Minute
)

// targetKinds are the kinds of the target cluster that informers watch.
var targetKinds = []struct {
	object client.Object
	kind   schema.GroupVersionKind
	scope  meta.RESTScope
}{
	{&corev1.Node{}, corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot},
	{&certificatesv1.CertificateSigningRequest{}, certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), meta.RESTScopeRoot},
	{&storagev1.VolumeAttachment{}, storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), meta.RESTScopeRoot},
	{&policyv1.PodDisruptionBudget{}, policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace},
}

// targetObjects returns an object of each of the targetKinds.
func targetObjects() (all []client.Object) {
	for _, k := range targetKinds {
		all = append(all, k.object)
	}
	return all
}

// targetCluster is the cluster with the Nodes, where that is not the control cluster. The manager starts it together with its
// caches. Until the caches are synced, the manager starts neither controllers nor the gRPC service, and does not take the lease.
// Thus drover waits for a target cluster that does not answer when drover starts.
type targetCluster struct {
	cluster.Cluster
	server discovery.ServerVersionInterface
	clock  clock.Clock
}

// addTarget adds the target cluster that the flag names to the manager. It returns nil when the flag names none. It returns no
// error when the target cluster does not answer, but it returns one when the target cluster is too old.
func addTarget(mgr manager.Manager, o *options, w *observer) (cluster.Cluster, error) {
	if o.targetKubeconfig == "" {
		return nil, nil
	}
	config, err := readKubeconfig("--target-kubeconfig", o.targetKubeconfig)
	if err != nil {
		return nil, err
	}
	w.kubernetes(config)
	config.Wrap(drain.AnswerAtOnce)
	target, err := newTarget(config, w)
	if err != nil {
		return nil, fmt.Errorf("making the clients of the target cluster: %w", err)
	}
	if info, err := target.server.ServerVersion(); err == nil {
		if err := checkVersion(info); err != nil {
			return nil, fmt.Errorf("--target-kubeconfig: %w", err)
		}
	}
	return target, mgr.Add(target)
}

// newTarget makes the target cluster, without sending a request to it.
func newTarget(config *rest.Config, w *observer) (*targetCluster, error) {
	made, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.Cache, o.Client, o.NewClient, o.MapperProvider = knownKinds(), cacheOptions(), clientOptions(), w.newClient, newTargetMapper
	})
	if err != nil {
		return nil, err
	}
	short := rest.CopyConfig(config)
	short.Timeout = targetTimeout
	server, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return &targetCluster{Cluster: made, server: server, clock: clock.RealClock{}}, nil
}

// Start waits until the API server reports a version that drover works with. Then it fills the caches until ctx ends.
func (t *targetCluster) Start(ctx context.Context) error {
	if !t.await(ctx) {
		return nil
	}
	return t.Cluster.Start(ctx)
}

// await returns true when the API server answers, and false when ctx has ended. It logs what it waits for.
func (t *targetCluster) await(ctx context.Context) bool {
	var said time.Time
	for {
		err := checkServer(t.server)
		if err == nil {
			return true
		}
		if now := t.clock.Now(); said.IsZero() || now.Sub(said) >= targetSays {
			said = now
			ctrl.LoggerFrom(ctx).Info("Waiting for the cluster with the Nodes: until it answers, no controller runs and the autoscaler is not served",
				"server", t.GetConfig().Host, "cause", err.Error())
		}
		timer := t.clock.NewTimer(targetRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C():
		}
	}
}

// targetMapper maps kinds to resources. For the kinds that informers watch it makes no request to the API server, so that
// informers and their indexes can be made while the API server does not answer. For every other kind it sends a request.
type targetMapper struct {
	meta.RESTMapper
	followed *meta.DefaultRESTMapper
}

func newTargetMapper(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	asking, err := apiutil.NewDynamicRESTMapper(config, c)
	if err != nil {
		return nil, err
	}
	m := targetMapper{asking, meta.NewDefaultRESTMapper(nil)}
	for _, k := range targetKinds {
		m.followed.Add(k.kind, k.scope)
	}
	return m, nil
}

// RESTMapping returns the resource and scope of a kind.
func (m targetMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if mapping, err := m.followed.RESTMapping(kind, versions...); err == nil {
		return mapping, nil
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}
