package process

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

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
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/world"
)

// clusterID is the cluster ID in the owner tags of drover's cloud resources.
const clusterID = "chaos"

// joinTimeout is how long a server may take to become a Node.
const joinTimeout = 10 * time.Minute

// Options say what happens to a process. The zero Options: nothing.
type Options struct {
	// Crash is where it dies; nil: nowhere.
	Crash *Point
	// Calls is after how many calls it dies; 0: it does not.
	Calls int
	// Stale, with Crash: the process does not die there.
	Stale *StaleLeader
	// HoldBack is how long the network holds back a create before which the process dies; 0: it never left the process.
	HoldBack time.Duration
	// Failing has calls fail; nil: none.
	Failing *Failing
	// LedBefore is when another process renewed the lease last; zero: none has.
	LedBefore time.Time
}

// Process is one drover: a manager with its controllers.
type Process struct {
	world   *world.World
	options Options
	life    *life
	stop    context.CancelFunc
	// started is closed once its controllers run, done when it has ended.
	started, done chan struct{}
	err           error
	heldBack      atomic.Bool
}

// Start runs a drover in a world until Stop is called, or until what the options say.
func Start(w *world.World, options Options) *Process {
	ctx, stop := context.WithCancel(context.Background())
	p := &Process{world: w, options: options, life: newLife(options), stop: stop, started: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = p.run(ctx)
	}()
	return p
}

// Stop ends a process, dead or alive, and waits until nothing of it runs.
func (p *Process) Stop() {
	p.life.die()
	select {
	case <-p.started:
	case <-p.done:
	}
	p.stop()
	<-p.done
}

// Over reports whether another process has to take over. The error is that of a process that ended by itself.
func (p *Process) Over() (bool, error) {
	select {
	case <-p.life.over:
		return true, nil
	case <-p.done:
		if p.life.ended() {
			return true, nil
		}
		return true, fmt.Errorf("drover ended by itself: %w", p.err)
	default:
		return false, nil
	}
}

// Dead reports whether the process does nothing any more. One that has only lost its lease goes on.
func (p *Process) Dead() bool { return p.life.ended() }

// Ended reports whether nothing of the process runs any more.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Led returns when the process renewed its lease last: just now, unless it has lost it.
func (p *Process) Led() time.Time { return p.life.lease.last() }

// LeaseEnds returns when another process may hold the lease of one that has lost it.
func (p *Process) LeaseEnds() time.Time { return p.life.lease.ends() }

// HeldBack reports whether a create of this process arrives, or arrived, after its death.
func (p *Process) HeldBack() bool { return p.heldBack.Load() }

// Calls returns the calls that were made, in order.
func (p *Process) Calls() []Point { return p.life.made() }

// run is what cmd/drover does, without lease, metrics and gRPC.
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
		return fmt.Errorf("making the manager: %w", err)
	}
	now := clock.RealClock{}
	os, err := openstack.New(openstack.Options{
		Clock: now, Reader: mgr.GetClient(), ClusterID: clusterID, Lease: lease, HTTP: transport{p, w.Cloud.RoundTripper(), calls.Cloud},
		Guarded:          func() bool { return true },
		AllowedEndpoints: []string{w.Cloud.AuthURL()},
	})
	if err != nil {
		return fmt.Errorf("making the cloud: %w", err)
	}
	if err := mgr.Add(os); err != nil {
		return fmt.Errorf("adding the cloud: %w", err)
	}
	asked, err := p.newReach(mgr)
	if err != nil {
		return fmt.Errorf("adding what asks the API server: %w", err)
	}
	source := bootstrap.New(bootstrap.Options{
		Control: mgr, Target: mgr, ProviderIDs: os, Clock: now, Rand: w.Random, StartupTaint: v1alpha1.DefaultStartupTaint,
	})
	for _, controller := range []interface {
		SetupWithManager(manager.Manager) error
	}{
		machine.New(machine.Options{
			Control: mgr, Target: mgr, Cloud: os, Bootstrap: source, Clock: now,
			StartupTaint: v1alpha1.DefaultStartupTaint, JoinTimeout: joinTimeout, Workers: w.Workers, Lease: lease, Reach: asked,
		}),
		set.New(set.Options{Control: mgr, Clock: now, PlaceRecord: os.PlaceRecord, Suffix: w.Suffix, Lease: lease, Reach: asked}),
		deployment.New(deployment.Options{Control: mgr, Target: mgr, Clock: now}),
		csr.New(csr.Options{Control: mgr, Target: mgr, Clock: now, Servers: os}),
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("setting up controllers: %w", err)
		}
	}
	if err := p.addSafety(mgr, os, asked); err != nil {
		return err
	}
	started := manager.RunnableFunc(func(ctx context.Context) error {
		close(p.started)
		<-ctx.Done()
		return nil
	})
	if err := mgr.Add(started); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
