package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/capacity"
	"github.com/drover-project/drover/machines/classprotection"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/csr"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/machines/handover"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/version"
)

// run runs drover until ctx ends.
func run(ctx context.Context, o *options, credentials client.Credentials) error {
	if !o.has(profiling) {
		// Without --features=profiling no client can request heap profiles, so none are recorded.
		runtime.MemProfileRate = 0
	}
	collectMore()
	config, err := clusterConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	return serve(ctx, o, surroundings{cluster: config, credentials: credentials})
}

// surroundings are what drover works with in addition to its flags: the cluster and the cloud. Tests replace them.
type surroundings struct {
	// cluster is the connection to the control cluster.
	cluster *rest.Config
	// cloud takes the place of OpenStack; nil means OpenStack. credentials are those of the configured OpenStack.
	cloud       cloud.Cloud
	credentials client.Credentials
	// transport carries the calls to OpenStack. nil means the network.
	transport http.RoundTripper
	// local is called with the gRPC server and its node groups; the server may be called once these are synced. When local is not nil, drover
	// does not listen.
	local func(*autoscale.Server, *nodegroup.Groups)
	// several is true when other drovers have run in this process. The names of the controllers are then in use, and this drover must
	// not trim memory that it shares with the others.
	several bool
}

// serve connects all parts of drover, and serves until ctx ends.
func serve(ctx context.Context, o *options, around surroundings) error {
	refusals := handover.NewRefusals()
	around.cluster = rest.CopyConfig(around.cluster)
	around.cluster.Wrap(refusals.Watch)
	around.cluster.Wrap(drain.AnswerAtOnce)
	w, id, err := connect(ctx, o, around)
	if err != nil {
		return err
	}
	mgr := w.controllers
	if err := addGuards(&w, o); err != nil {
		return err
	}
	its, err := newCloud(w, o, id, around)
	if err != nil {
		return fmt.Errorf("making the cloud: %w", err)
	}
	if err := errors.Join(addControllers(w, o, its), addRepair(w, o), addOrphans(w, o, its), addHandover(mgr, w.lease.waiting(), refusals)); err != nil {
		return err
	}
	server, err := addAutoscale(w, o, its, around.local)
	if err != nil {
		return err
	}
	if err := errors.Join(addHealth(mgr, server, o.healthAddress), addPages(mgr, o, w.pages), addTrimmer(mgr, around), metrics.Registry.Register(version.Metric())); err != nil {
		return fmt.Errorf("adding health checks, pages, the trimming of memory and the metric of the build: %w", err)
	}
	ctrl.Log.Info("Starting", "clusterID", id, "grpc", o.grpcAddress, "leaderElection", w.lease != nil)
	if err := stopInTime(ctx, mgr.Start); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// wiring holds the manager, the target cluster and the checks that the parts of drover share.
type wiring struct {
	// controllers is the manager of the control cluster. target is the cluster with the Nodes: the control cluster, unless a flag names another.
	controllers manager.Manager
	target      cluster.Cluster
	// observer is nil outside of observe mode.
	observer *observer
	lease    *lease
	reach    *reach.Watch
	// pages are what the metrics address serves.
	pages pages
	// guarded reports whether drover may trust values that the guard policies protect.
	guarded guarded
}

// newWiring returns the wiring for the manager of the control cluster and for the target cluster. target is nil when the control
// cluster is also the target cluster.
func newWiring(mgr manager.Manager, target cluster.Cluster, w *observer) wiring {
	out := wiring{controllers: boundedEvents{mgr}, observer: w, pages: newPages()}
	out.target = out.controllers
	if target != nil {
		out.target = boundedTarget{target}
	}
	if w != nil {
		out.pages.Handle("/observe", w)
	}
	return out
}

// connect returns the wiring and the cluster id. It creates the manager for the control cluster, and adds the target cluster if that is
// not the control cluster itself.
func connect(ctx context.Context, o *options, around surroundings) (wiring, string, error) {
	config := around.cluster
	observer := newObserver(o)
	observer.kubernetes(config)
	id, err := prepare(ctx, config, o)
	if err != nil {
		return wiring{}, "", err
	}
	lock, err := newLease(config, o)
	if err != nil {
		return wiring{}, "", err
	}
	mgr, err := newManager(config, o, lock, observer, around.several)
	if err != nil {
		return wiring{}, "", err
	}
	target, err := addTarget(mgr, o, observer)
	if err != nil {
		return wiring{}, "", err
	}
	w := newWiring(mgr, target, observer)
	w.lease = lock
	if err := errors.Join(watchEarly(ctx, mgr.GetCache(), controlKinds), watchEarly(ctx, w.target.GetCache(), targetObjects())); err != nil {
		return wiring{}, "", err
	}
	return w, id, nil
}

// newCloud returns the cloud of all Machines.
func newCloud(w wiring, o *options, id string, around surroundings) (cloud.Cloud, error) {
	if around.cloud != nil {
		return around.cloud, nil
	}
	return newOpenStack(w, o, id, around)
}

// newOpenStack returns the OpenStack cloud, which runs with the manager.
func newOpenStack(w wiring, o *options, id string, around surroundings) (*openstack.Cloud, error) {
	mgr := w.controllers
	openStack, err := openstack.New(openstack.Options{
		Options: spec.Options{
			Reader: mgr.GetClient(), Configured: around.credentials, OwnNamespace: o.namespace, AllowedNamespaces: o.secretNamespaces,
			ServiceAccount: o.serviceAccount(), IdentityOverride: o.has(identityOverride), SharedServerGroup: o.has(sharedServerGroup),
		},
		Clock: clock.RealClock{}, ClusterID: id, HTTP: around.transport, Reread: rereading(o), AllowedEndpoints: o.allowedEndpoints,
		Registry: metrics.Registry, ProviderIDRegion: o.has(providerIDRegion), Observe: w.observer.openStack(), Lease: w.lease, Guarded: w.guarded.InForce,
	})
	if err != nil {
		return nil, err
	}
	return openStack, mgr.Add(openStack)
}

// addControllers adds all parts that need the lease, because they write to the cloud or decide about Machines.
func addControllers(w wiring, o *options, its cloud.Cloud) error {
	mgr, now := w.controllers, clock.RealClock{}
	source, err := newSource(w, o, its)
	if err != nil {
		return err
	}
	approvers, err := csr.NewApproverCheck(w.target, now, metrics.Registry)
	if err != nil {
		return fmt.Errorf("making the check of approvers: %w", err)
	}
	if err := mgr.Add(approvers); err != nil {
		return fmt.Errorf("adding the check of approvers: %w", err)
	}
	frozen := ownership.NewFrozenMetric()
	if err := metrics.Registry.Register(frozen); err != nil {
		return fmt.Errorf("registering the metric of frozen groups: %w", err)
	}
	deployments := deployment.New(deployment.Options{Control: mgr, Target: w.target, Clock: now, MaxReplacing: o.freeze.maxReplacing, Frozen: frozen})
	w.pages.Handle("/plans", deployments)
	keeper, err := guard.NewKeeper(mgr.GetAPIReader(), now, metrics.Registry)
	if err != nil {
		return fmt.Errorf("making the check of drover's CustomResourceDefinitions: %w", err)
	}
	machines, err := o.machines()
	if err != nil {
		return err
	}
	machines.Control, machines.Target, machines.Cloud, machines.Bootstrap, machines.Clock = mgr, w.target, its, source, now
	machines.Lease, machines.Kinds, machines.Reach, machines.Registry = w.lease, keeper, w.reach, metrics.Registry
	reconciler := machine.New(machines)
	w.pages.Handle("/plans/machines", reconciler)
	for _, controller := range []interface {
		SetupWithManager(manager.Manager) error
	}{
		reconciler,
		set.New(set.Options{
			Control: mgr, Clock: now, PlaceRecord: its.PlaceRecord, Lease: w.lease, Reach: w.reach, Suffix: func() string { return utilrand.String(5) },
			SafetyUp: o.freeze.safetyUp(), SafetyDown: o.freeze.down, FreezePeriod: o.freeze.period, Frozen: frozen,
		}),
		classprotection.New(classprotection.Options{Control: mgr, AllowedNamespaces: o.secretNamespaces}),
		deployments,
		csr.New(csr.Options{Control: mgr, Target: w.target, Clock: now, Servers: its, Reserved: o.nodes.reserved(w.target.GetConfig().Host)}),
		capacity.New(capacity.Options{
			Control: mgr, Target: w.target, Cloud: its, Clock: now, BareSets: o.has(bareMachineSets),
			Rules: capacity.Rules{
				StartupTaint: o.startupTaint, OtherStartupTaints: machines.Nodes.Start.OtherTaints,
				AllowedNodeLabels: o.allowedNodeLabels, GPUResource: machines.Nodes.GPUResource, GPULabel: o.groups.gpuLabel,
			},
		}),
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("setting up controllers: %w", err)
		}
	}
	return nil
}

// newSource returns the source of user data. It also adds the Collector to the manager, which deletes bootstrap tokens that are
// no longer needed.
func newSource(w wiring, o *options, ids bootstrap.ProviderIDs) (*bootstrap.Source, error) {
	site, err := o.nodes.readSite()
	if err != nil {
		return nil, err
	}
	for system, err := range site.TooLargeFor() {
		ctrl.Log.Error(err, "A Machine of this operating system gets no server, unless its user data is not drover's", "operatingSystem", system)
	}
	now := clock.RealClock{}
	source := bootstrap.New(bootstrap.Options{
		Control: w.controllers, Target: w.target, Clock: now,
		APIServer: o.nodes.apiServer, InPod: o.kubeconfig == "" && o.targetKubeconfig == "", ClusterDNS: o.nodes.clusterDNS, ClusterDomain: o.nodes.clusterDomain,
		StartupTaint: o.startupTaint, ProviderIDs: ids, AllowedNamespaces: o.secretNamespaces,
		ServiceAccount: o.serviceAccount(), Site: site,
	})
	return source, w.controllers.Add(&bootstrap.Collector{Source: source, Clock: now})
}

// addAutoscale adds what every replica runs: the node groups and their gRPC service. When local is not nil, it receives the service,
// which then does not listen.
func addAutoscale(w wiring, o *options, names cloud.Provider, local func(*autoscale.Server, *nodegroup.Groups)) (*autoscale.Server, error) {
	of, err := o.nodeGroups()
	if err != nil {
		return nil, err
	}
	mgr := w.controllers
	of.Control, of.Target, of.Elected, of.Registry = mgr, w.target, mgr.Elected(), metrics.Registry
	of.Discovery.Cloud, of.Reach = names, w.reach
	groups := nodegroup.New(of)
	serving := o.serving()
	serving.Groups, serving.Ready, serving.Registry = groups, groups.Synced(), metrics.Registry
	if serving.SelfSigned {
		keeper := newCertificates(w, o)
		if err := mgr.Add(keeper); err != nil {
			return nil, fmt.Errorf("adding the keeper of certificates: %w", err)
		}
		serving.Keeper = keeper
	}
	server, err := autoscale.New(serving)
	if err != nil {
		return nil, fmt.Errorf("making the gRPC server: %w", err)
	}
	if local != nil {
		local(server, groups)
		return server, mgr.Add(groups)
	}
	return server, errors.Join(mgr.Add(groups), mgr.Add(server))
}

// newCertificates returns the keeper of the certificates that drover creates itself.
func newCertificates(w wiring, o *options) *autoscale.Keeper {
	own, autoscalers := o.secretNames(o.namespace)
	return autoscale.NewKeeper(autoscale.KeeperOptions{
		Client: w.controllers.GetClient(), Own: own, Autoscaler: autoscalers, Names: o.certificateNames(),
		Clock: clock.RealClock{}, Registry: metrics.Registry,
	})
}
