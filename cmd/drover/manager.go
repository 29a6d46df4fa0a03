package main

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// newManager returns the manager. A nil lock disables leader election. several is true when other managers have run in this
// process.
func newManager(config *rest.Config, o *options, lock *lease, several bool) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              knownKinds(),
		Metrics:                             metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:              o.healthAddress,
		PprofBindAddress:                    o.pprofAddress,
		LeaderElection:                      lock != nil,
		LeaderElectionID:                    leaseName,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       new(leaseLife),
		RenewDeadline:                       new(leaseDeadline),
		RetryPeriod:                         new(cmp.Or(o.leaseRetry, leaseRetry)),
		GracefulShutdownTimeout:             new(shutdownTimeout),
		Cache:                               cacheOptions(),
		Client:                              clientOptions(),
		Controller:                          controllerconfig.Controller{SkipNameValidation: new(several)},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager (metrics %s, health %s): %w", o.metricsAddress, o.healthAddress, err)
	}
	return mgr, nil
}

// knownKinds returns a scheme with the kinds of Kubernetes and drover's own kinds.
func knownKinds() *runtime.Scheme {
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	utilruntime.Must(v1alpha1.AddToScheme(kinds))
	return kinds
}

// cacheOptions returns the options of the informer caches, for either cluster.
func cacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: slimNode}},
	}
}

// clientOptions returns the options of the clients for either cluster. The options list the kinds that clients read from the
// API server itself: drover reads objects of these kinds one by one where it needs them, and never caches them cluster-wide.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}}}}
}

// watchEarly starts the watches of kinds with few objects on every replica, not only on the leader at its first read. Thus a
// new leader's first reconciles do not wait for a watch to begin, which takes more than a second when the API server has no
// watch of the kind yet. watchEarly ignores kinds that are not installed.
func watchEarly(ctx context.Context, mgr manager.Manager) error {
	for _, kind := range []client.Object{&v1alpha1.MachineClass{}, &v1alpha1.Cluster{}} {
		_, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

// slimNode removes the fields of a Node that drover never reads, which are most of its size.
func slimNode(in any) (any, error) {
	node, ok := in.(*corev1.Node)
	if !ok {
		return in, nil
	}
	node.ManagedFields = nil
	node.Status.Images = nil
	return node, nil
}
