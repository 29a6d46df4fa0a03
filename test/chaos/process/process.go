package process

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/csr"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/openstack/spec"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/world"
)

// clusterID is the cluster ID in the owner tags of drover's cloud resources.
const clusterID = "chaos"

// joinTimeout is how long a server may take to become a Node.
const joinTimeout = 10 * time.Minute

// Options configures the faults of a process. The zero value means no faults.
type Options struct {
	// Crash is the fault point at which the process dies. Nil means that there is none.
	Crash *Point
	// Calls is the number of calls after which the process dies; 0 means never.
	Calls int
	// Stale makes the process lose its lease at the fault point instead of dying.
	Stale *StaleLeader
	// Stops makes the process end at the fault point as after SIGTERM, instead of dying: its contexts are cancelled, and it ends once its
	// reconciles have returned.
	Stops bool
	// HoldBack delays the create call at the fault point: the process dies when it sends the call, and the call arrives at the
	// cloud this long after the crash. 0 means that the call never arrives.
	HoldBack time.Duration
	// Failing makes calls fail. Nil means that no call fails.
	Failing *Failing
}

// Process is one start of drover: a manager with its controllers.
type Process struct {
	world   *world.World
	options Options
	life    *life
	stop    context.CancelFunc
	// started is closed when the controllers run. done is closed when the process has ended.
	started, done chan struct{}
	err           error
	heldBack      atomic.Bool
	registry      *prometheus.Registry
}

// Start runs drover in a world until Stop is called or until the fault in options ends it.
func Start(w *world.World, options Options) *Process {
	ctx, stop := context.WithCancel(context.Background())
	p := &Process{world: w, options: options, life: newLife(options), stop: stop, started: make(chan struct{}), done: make(chan struct{}), registry: prometheus.NewRegistry()}
	if options.Stops {
		p.life.stop = stop
	}
	go func() {
		defer close(p.done)
		p.err = p.run(ctx)
	}()
	return p
}

// Stop ends the process, if it is still alive, and waits until all of its goroutines have ended.
func (p *Process) Stop() {
	p.life.die()
	select {
	case <-p.started:
	case <-p.done:
	}
	p.stop()
	<-p.done
}

// Over reports whether another process has to take over. The error is the one with which the manager ended.
func (p *Process) Over() (bool, error) {
	select {
	case <-p.life.over:
		return true, nil
	case <-p.done:
		if p.life.ended() || p.options.Stops && p.err == nil {
			return true, nil
		}
		return true, fmt.Errorf("drover's manager ended: %w", p.err)
	default:
		return false, nil
	}
}

// EndAfter sets the fault point of the process: before, or after, its nth call from now on.
func (p *Process) EndAfter(n int, after bool) { p.life.endAfter(n, after) }

// Pause returns how long the process stands still when it loses its lease.
func (p *Process) Pause() time.Duration {
	if p.options.Stale == nil {
		return 0
	}
	return p.options.Stale.Pause
}

// Dead reports whether the process makes no calls any more. A stale leader is not dead.
func (p *Process) Dead() bool { return p.life.ended() }

// Ended reports whether all goroutines of the process have ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// LeaseEnds returns the time at which another process may acquire the lost lease.
func (p *Process) LeaseEnds() time.Time { return p.life.lease.ends() }

// HeldBack reports whether a create call of this process arrives at the cloud after its death.
func (p *Process) HeldBack() bool { return p.heldBack.Load() }

// Calls returns the calls of the process, in order.
func (p *Process) Calls() []Point { return p.life.made() }

// run does what cmd/drover does, except for the lease, metrics and gRPC.
func (p *Process) run(ctx context.Context) error {
	w, lease := p.world, &p.life.lease
	kube := w.Kube.ConfigOver(transport{p, w.Kube.RoundTripper("drover"), calls.Kube})
	kube.UserAgent = "drover"
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme: world.Kinds, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: ptr.To(10 * time.Second),
		Controller:              config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}},
		}},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	now := clock.RealClock{}
	os, err := openstack.New(openstack.Options{
		Clock: now, Options: spec.Options{Reader: mgr.GetClient()}, ClusterID: clusterID, Lease: lease, HTTP: transport{p, w.Cloud.RoundTripper(), calls.Cloud},
		Guarded:          func() bool { return true },
		AllowedEndpoints: []string{w.Cloud.AuthURL()}, Registry: p.registry,
	})
	if err != nil {
		return fmt.Errorf("creating the cloud: %w", err)
	}
	if err := mgr.Add(os); err != nil {
		return fmt.Errorf("adding the cloud: %w", err)
	}
	asked := p.newReach(mgr)
	source := bootstrap.New(bootstrap.Options{
		Control: mgr, Target: mgr, ProviderIDs: os, Clock: now, StartupTaint: v1alpha1.DefaultStartupTaint,
	})
	frozen := ownership.NewFrozenMetric()
	p.registry.MustRegister(frozen)
	for _, controller := range []interface {
		SetupWithManager(manager.Manager) error
	}{
		machine.New(machine.Options{
			Control: mgr, Target: mgr, Cloud: os, Bootstrap: source, Clock: now,
			Nodes:    steps.NodeOptions{Start: nodes.StartRules{Taint: v1alpha1.DefaultStartupTaint}},
			Timeouts: lifecycle.Timeouts{Join: joinTimeout}, Workers: w.Workers, Lease: lease, Reach: asked,
		}),
		set.New(set.Options{Control: mgr, Clock: now, PlaceRecord: os.PlaceRecord, Suffix: w.Suffix, Lease: lease, Reach: asked, Frozen: frozen}),
		deployment.New(deployment.Options{Control: mgr, Target: mgr, Clock: now, Frozen: frozen}),
		csr.New(csr.Options{Control: mgr, Target: mgr, Clock: now, Servers: os}),
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("setting up controllers: %w", err)
		}
	}
	if err := errors.Join(p.addSafety(mgr, os, asked), mgr.Add(manager.RunnableFunc(p.start))); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// start is called by the manager when the controllers run.
func (p *Process) start(ctx context.Context) error {
	close(p.started)
	<-ctx.Done()
	return nil
}
