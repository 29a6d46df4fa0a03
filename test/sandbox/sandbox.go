package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/openstack"
)

// startupTaint is the taint that drover's Nodes have by default when they register.
const startupTaint = v1alpha1.DefaultStartupTaint

// Sandbox is a running cloud and cluster.
type Sandbox struct {
	// Dir holds keys, logs and data.
	Dir string
	// Cluster holds the Machines, and Target holds the Nodes and pods. They are the same cluster unless the options set
	// TwoClusters.
	Cluster, Target *kube.Cluster
	Cloud           *openstack.Cloud
	// Client and TargetClient are the administrators' clients of Cluster and Target, for the kinds of Kubernetes and
	// of drover.
	Client, TargetClient client.Client

	options  Options
	release  func() // unlocks the owner file of the folder
	pki      pki
	machines *machines
	replicas []*replica
	front    *front
	// scaler is the process of the real autoscaler. standIn stops the simulated autoscaler, which runs in this process.
	scaler  *process
	standIn func()
	// cloudController stops the simulated cloud-controller-manager. It is nil while none runs.
	cloudController func()
	running         context.Context
	cancel          context.CancelFunc
	work            sync.WaitGroup
	stop            sync.Once

	mu       sync.Mutex
	failures []error
}

// Start starts everything that the options ask for. ctx limits only the start; the sandbox runs until Stop. After an error
// nothing is left running.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.claimAll(); err != nil {
		return nil, err
	}
	dir, release, err := kube.OwnFolder(o.Dir, "drover-sandbox-")
	if err != nil {
		return nil, fmt.Errorf("making the sandbox's folder: %w; it is --dir, else a new one in TMPDIR", err)
	}
	s := &Sandbox{Dir: dir, options: o, release: release}
	err = enoughSpace(dir)
	if err == nil {
		err = s.bringUp(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Sandbox) bringUp(ctx context.Context) error {
	began := time.Now()
	say(s.options.Log, "autoscaler: %s", s.AutoscalerName())
	if err := s.build(ctx); err != nil {
		return err
	}
	// The simulated programs run in this process. They outlive ctx and end with Stop.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.running, s.cancel = running, cancel
	type step struct {
		name string
		do   func(ctx context.Context) error
	}
	steps := []step{
		{"control plane", s.startCluster},
		{"simulated OpenStack", func(context.Context) error { return s.startCloud(running) }},
	}
	if !s.options.NoDrover {
		steps = append(steps, step{"drover", s.startDrovers},
			step{"autoscaler", func(context.Context) error { return s.startAutoscaler() }})
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", step.name, err)
		}
		say(s.options.Log, "%s: up after %.1f s", step.name, time.Since(began).Seconds())
	}
	return nil
}

// build builds missing binaries: those of the control plane, and drover.
func (s *Sandbox) build(ctx context.Context) (err error) {
	if _, err := kube.Binaries(ctx, s.options.Log); err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	if s.options.Drover == "" && !s.options.NoDrover {
		s.options.Drover, err = Build(ctx, s.Dir, s.options.Log)
	}
	if err != nil {
		return err
	}
	s.pki, err = makePKI(filepath.Join(s.Dir, "pki"))
	return err
}

func (s *Sandbox) startCluster(ctx context.Context) error {
	var err error
	if !s.options.TwoClusters {
		s.Cluster, err = kube.Start(ctx, s.clusterOptions("kube", kube.All(), &s.Client))
		s.Target, s.TargetClient = s.Cluster, s.Client
		return err
	}
	s.Target, err = kube.Start(ctx, s.clusterOptions("target", kube.All(), &s.TargetClient, "target"))
	if err != nil {
		return err
	}
	components := []kube.Component{kube.ControllerManager}
	s.Cluster, err = kube.Start(ctx, s.clusterOptions("kube", components, &s.Client, "crds", "control", "policies"))
	return err
}

// clusterOptions returns the options of one cluster, with its data in the folder dir. Before the cluster's controllers
// start, the manifests in the folders manifests are applied, so that the garbage collector handles drover's kinds from
// the start. Without such folders the manifests for a single cluster are applied.
func (s *Sandbox) clusterOptions(dir string, components []kube.Component, administrator *client.Client, manifests ...string) kube.Options {
	install := func(ctx context.Context, cluster *kube.Cluster) error {
		c, err := client.New(cluster.Config, client.Options{Scheme: Scheme()})
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		*administrator = c
		if s.options.NoDrover {
			return nil
		}
		return deploy.Apply(ctx, c, manifests...)
	}
	return kube.Options{Dir: filepath.Join(s.Dir, dir), Components: components, Log: s.options.Log, Prepare: install}
}

// Scheme is the scheme with the kinds of Kubernetes and of drover.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// startCloud starts the cloud, its servers and the simulated cloud-controller-manager.
func (s *Sandbox) startCloud(running context.Context) error {
	s.Cloud = newCloud(s.options.BootTime, s.options.Seed)
	s.machines = runMachines(running, s.Cloud, s.options.Boots, s.options.Heartbeat)
	if err := s.Cloud.Start(running); err != nil {
		return err
	}
	s.startCloudController()
	return nil
}

// startCloudController runs the simulated cloud-controller-manager until the sandbox stops or KillCloudController is called.
func (s *Sandbox) startCloudController() {
	ctx, cancel := context.WithCancel(s.running)
	ended := make(chan struct{})
	s.work.Go(func() {
		defer close(ended)
		err := kubelet.RunCloudControllerManager(ctx, kubelet.CloudControllerOptions{
			Config: s.Target.Config, Servers: serversOf(s.Cloud, region), Interval: s.options.CloudControllerInterval,
		})
		if err != nil {
			s.failed(err)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cloudController = func() {
		cancel()
		<-ended
	}
}

func (s *Sandbox) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, err)
}

// Err returns the error of a program that has ended unexpectedly or failed permanently, or nil while everything runs.
func (s *Sandbox) Err() error {
	s.mu.Lock()
	all := slices.Clone(s.failures)
	s.mu.Unlock()
	for _, p := range s.processes() {
		all = append(all, p.failure())
	}
	return errors.Join(append(all, s.Cluster.Err(), s.Target.Err())...)
}

// Stop stops everything and removes the folder. It may be called more than once.
func (s *Sandbox) Stop() {
	s.stop.Do(func() {
		// Clients stop before their servers, so that none logs errors.
		if s.cancel != nil {
			s.cancel()
		}
		s.work.Wait()
		for _, p := range slices.Backward(s.processes()) {
			p.stop()
		}
		if s.front != nil {
			s.front.close()
		}
		if s.machines != nil {
			s.machines.wait()
		}
		if s.Cloud != nil {
			s.Cloud.Close()
		}
		for _, cluster := range []*kube.Cluster{s.Cluster, s.Target} {
			if cluster != nil {
				cluster.Stop()
			}
		}
		_ = os.RemoveAll(s.Dir)
		s.release()
	})
}

// processes returns the programs that should be running, in the order of their start.
func (s *Sandbox) processes() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*process
	for _, r := range s.replicas {
		if r.process != nil {
			out = append(out, r.process)
		}
	}
	if s.scaler != nil {
		out = append(out, s.scaler)
	}
	return out
}

// MetricsAddress returns the address at which drover serves its metrics and debug pages.
func (s *Sandbox) MetricsAddress() string { return s.options.MetricsAddress }

// HealthAddress returns the address at which drover answers whether it is ready.
func (s *Sandbox) HealthAddress() string { return s.options.HealthAddress }

// GRPCAddress returns the address at which drover answers the autoscaler.
func (s *Sandbox) GRPCAddress() string { return s.options.GRPCAddress }

// LogFile returns the path of the log of drover or of the autoscaler.
func (s *Sandbox) LogFile(name string) string { return filepath.Join(s.Dir, name+".log") }
