package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/capacity"
	"github.com/drover-project/drover/machines/csr"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/nodegroup"
)

// leaseName is the lease that controllers, cloud calls and approvals need.
const leaseName = "drover"

// clientRate bounds drover's own requests to the API server, per second. The server's priority and fairness is what
// protects it; this only keeps a mistake of ours from becoming its problem.
const clientRate = 300

// run serves until ctx ends.
func run(ctx context.Context, o *options, credentials openstack.Credentials) error {
	config, err := clusterConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	id, err := prepare(ctx, config, o)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	if err := addHealth(mgr); err != nil {
		return fmt.Errorf("adding health checks: %w", err)
	}
	if err := addControllers(mgr, o, id, credentials); err != nil {
		return err
	}
	if err := addAutoscale(mgr, o); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "clusterID", id, "grpc", o.grpcAddress, "leaderElection", o.leader)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no --kubeconfig, and not in a pod: %w", err)
		}
		return tuned(config), nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig: %w", err)
	}
	return tuned(config), nil
}

func tuned(config *rest.Config) *rest.Config {
	config.QPS, config.Burst = clientRate, 2*clientRate
	config.UserAgent = "drover"
	return config
}

// prepare checks that the cluster is one that drover works with, and gives its id.
func prepare(ctx context.Context, config *rest.Config, o *options) (string, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a discovery client: %w", err)
	}
	if err := checkServer(disco); err != nil {
		return "", err
	}
	group := v1alpha1.GroupVersion.String()
	if _, err := disco.ServerResourcesForGroupVersion(group); err != nil {
		if apierrors.IsNotFound(err) {
			return "", fmt.Errorf("the cluster does not serve %s: install the CRDs first (kubectl apply -k deploy)", group)
		}
		return "", fmt.Errorf("asking whether the cluster serves %s: %w", group, err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	return clusterID(ctx, c, o.namespace, o.clusterID)
}

func newManager(config *rest.Config, o *options) (manager.Manager, error) {
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	utilruntime.Must(v1alpha1.AddToScheme(kinds))
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        kinds,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leader,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(10 * time.Second),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: slimNode}},
		},
		Client: client.Options{Cache: &client.CacheOptions{
			// Read one by one where needed, never held cluster-wide.
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager (metrics %s, health %s): %w", o.metricsAddress, o.healthAddress, err)
	}
	return mgr, nil
}

// slimNode drops what drover never reads of a Node and what makes most of its size.
func slimNode(in any) (any, error) {
	node, ok := in.(*corev1.Node)
	if !ok {
		return in, nil
	}
	node.ManagedFields = nil
	node.Status.Images = nil
	return node, nil
}

// addControllers wires what needs the lease: everything that writes to the cloud or decides about Machines.
func addControllers(mgr manager.Manager, o *options, id string, credentials openstack.Credentials) error {
	now := clock.RealClock{}
	os, err := openstack.New(openstack.Options{
		Clock: now, Reader: mgr.GetClient(), ClusterID: id, Configured: credentials,
		Registry: metrics.Registry, AllowedNamespaces: o.secretNamespaces,
	})
	if err != nil {
		return fmt.Errorf("making the cloud: %w", err)
	}
	if err := mgr.Add(os); err != nil {
		return fmt.Errorf("adding the cloud: %w", err)
	}
	source := bootstrap.New(bootstrap.Options{
		Control: mgr, Target: mgr, Clock: now, Rand: rand.Reader,
		APIServer: o.bootstrapAPIServer, StartupTaint: o.startupTaint,
	})
	for _, controller := range []interface {
		SetupWithManager(manager.Manager) error
	}{
		machine.New(machine.Options{
			Control: mgr, Target: mgr, Cloud: os, Bootstrap: source, Clock: now, ClusterID: id,
			StartupTaint: o.startupTaint, DrainTimeout: o.drainTimeout, JoinTimeout: o.joinTimeout, Workers: o.workers,
		}),
		set.New(set.Options{Control: mgr, Clock: now}),
		deployment.New(deployment.Options{Control: mgr, Clock: now}),
		csr.New(csr.Options{Control: mgr, Target: mgr, Clock: now}),
		capacity.New(capacity.Options{Control: mgr, Cloud: os, Clock: now, StartupTaint: o.startupTaint}),
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("setting up controllers: %w", err)
		}
	}
	return nil
}

// addAutoscale wires what every replica runs: the node groups and the service that shows them.
func addAutoscale(mgr manager.Manager, o *options) error {
	groups := nodegroup.New(nodegroup.Options{Control: mgr, Target: mgr})
	server, err := autoscale.New(autoscale.Options{
		Groups: groups, Ready: groups.Synced(), Address: o.grpcAddress,
		Cert: o.grpcCert, Key: o.grpcKey, ClientCA: o.grpcClientCA, AllowedClients: o.grpcAllowedClients,
		Insecure: o.grpcInsecure, Reflection: o.grpcReflection,
	})
	if err != nil {
		return fmt.Errorf("making the gRPC server: %w", err)
	}
	return errors.Join(mgr.Add(groups), mgr.Add(server))
}
