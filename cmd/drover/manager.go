package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

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
func newManager(config *rest.Config, o *options, lock *lease, observer *observer, several bool) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              knownKinds(),
		Metrics:                             metricsserver.Options{BindAddress: off},
		HealthProbeBindAddress:              off,
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
		NewClient:                           observer.newClient,
		Controller:                          controllerconfig.Controller{SkipNameValidation: new(several)},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
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

// clientOptions returns the options of the clients for either cluster. The options list the kinds that clients read from the
// API server itself: drover reads objects of these kinds one by one where it needs them, and never caches them cluster-wide.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}}}}
}

// controlKinds are the kinds of the control cluster that informers watch.
var controlKinds = []client.Object{&v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}, &v1alpha1.Machine{}, &v1alpha1.MachineClass{}, &v1alpha1.Cluster{}}

// watchEarly makes the informers of all kinds that the leader needs, on every replica and before the manager starts. The manager syncs
// them before it takes the lease. So a replica that may not read one of them does not lead and does not make servers that cannot join, and
// a new leader's first reconciles do not wait for a watch to begin. watchEarly ignores kinds that are not installed.
func watchEarly(ctx context.Context, informers cache.Cache, watched []client.Object) error {
	for _, kind := range watched {
		_, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

const (
	// shutdownTimeout is how long running parts may take to finish what they have begun.
	shutdownTimeout = 10 * time.Second
	// stopTimeout is the time after which the process ends in any case. A manager that is stopped before its caches are synced
	// waits for an API server that may never answer.
	stopTimeout = shutdownTimeout + 5*time.Second
)

// stopInTime runs start until it returns. It stops waiting for start when stopTimeout has passed since ctx ended.
func stopInTime(ctx context.Context, start func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("stopping: not finished %v after the signal; drover continues the unfinished work at the next start", stopTimeout)
	}
}
