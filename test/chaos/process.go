package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
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
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/set"
)

// clusterID is what drover's cloud resources are marked with.
const clusterID = "chaos"

var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}()

// process is one drover: a manager with its controllers, behind two doors that may be slammed.
type process struct {
	life *life
	stop context.CancelFunc
	// started is closed once its controllers run, done when it has ended.
	started, done chan struct{}
	err           error
}

// start runs a drover that dies at a point, or only loses its lease there; nil: that lives until it is stopped.
func (w *World) start(end *Point, z *zombie) *process {
	ctx, stop := context.WithCancel(context.Background())
	p := &process{life: newLife(end, z), stop: stop, started: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = w.run(ctx, p)
	}()
	return p
}

// stopped ends a process, dead or alive, and waits until nothing of it runs.
func (p *process) stopped() {
	p.life.die()
	select {
	case <-p.started:
	case <-p.done:
	}
	p.stop()
	<-p.done
}

// run is what cmd/drover does, without lease, metrics and gRPC.
func (w *World) run(ctx context.Context, p *process) error {
	l := p.life
	kube := w.Kube.ConfigOver(door{l, w, w.Kube.RoundTripper("drover"), kubeCall})
	kube.UserAgent = "drover"
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme: kinds, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
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
		Clock: now, Reader: mgr.GetClient(), ClusterID: clusterID, Lease: &l.lease, HTTP: door{l, w, w.Cloud.RoundTripper(), cloudCall},
		Guarded:          func() bool { return true },
		AllowedEndpoints: []string{w.Cloud.AuthURL()},
	})
	if err != nil {
		return fmt.Errorf("making the cloud: %w", err)
	}
	if err := mgr.Add(os); err != nil {
		return fmt.Errorf("adding the cloud: %w", err)
	}
	source := bootstrap.New(bootstrap.Options{
		Control: mgr, Target: mgr, ProviderIDs: os, Clock: now, Rand: w.bytes, StartupTaint: v1alpha1.DefaultStartupTaint,
	})
	for _, controller := range []interface {
		SetupWithManager(manager.Manager) error
	}{
		machine.New(machine.Options{
			Control: mgr, Target: mgr, Cloud: os, Bootstrap: source, Clock: now,
			StartupTaint: v1alpha1.DefaultStartupTaint, JoinTimeout: 10 * time.Minute, Workers: w.workers, Lease: &l.lease,
		}),
		set.New(set.Options{Control: mgr, Clock: now, PlaceRecord: os.PlaceRecord, Suffix: w.suffix, Lease: &l.lease}),
		csr.New(csr.Options{Control: mgr, Target: mgr, Clock: now, Servers: os}),
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("setting up controllers: %w", err)
		}
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
