package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/autoscaler"
	"github.com/drover-project/drover/test/kubelet"
)

// FindAutoscaler returns the path of a real cluster-autoscaler: the one in CLUSTER_AUTOSCALER, otherwise the one on the
// PATH, otherwise an empty path.
func FindAutoscaler() (string, error) {
	if named := os.Getenv("CLUSTER_AUTOSCALER"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("CLUSTER_AUTOSCALER=%s: %w; name an executable, or unset it to have the stand-in", named, err)
		}
		return path, nil
	}
	path, err := exec.LookPath(autoscalerName)
	if err != nil {
		return "", nil
	}
	return path, nil
}

// AutoscalerName returns what plays the autoscaler.
func (s *Sandbox) AutoscalerName() string {
	switch {
	case s.options.NoAutoscaler, s.options.NoDrover:
		return "none"
	case s.options.Autoscaler != "":
		return s.options.Autoscaler
	}
	return "a stand-in for cluster-autoscaler (CLUSTER_AUTOSCALER=FILE runs a real one)"
}

// Dial connects to drover as the autoscaler does.
func (s *Sandbox) Dial() (*grpc.ClientConn, error) {
	config, err := autoscaler.ReadCloudConfig(s.cloudConfig())
	if err != nil {
		return nil, err
	}
	return config.Dial()
}

func (s *Sandbox) cloudConfig() string { return filepath.Join(s.Dir, "autoscaler-cloud.yaml") }

// startAutoscaler writes the cloud config, and runs the real or the simulated autoscaler with it.
func (s *Sandbox) startAutoscaler() error {
	config := autoscaler.CloudConfig{
		Address: s.grpcAddress(), Key: s.pki.clientKey, Cert: s.pki.clientCert, CACert: s.pki.ca, Timeout: "5s",
	}
	raw, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing the autoscaler's cloud config: %w", err)
	}
	if err := os.WriteFile(s.cloudConfig(), raw, 0o600); err != nil {
		return fmt.Errorf("writing the autoscaler's cloud config: %w", err)
	}
	switch {
	case s.options.NoAutoscaler:
		return nil
	case s.options.Autoscaler != "":
		return s.runAutoscaler(s.cloudConfig())
	}
	return s.runStandIn()
}

// grpcAddress returns the address at which the autoscaler reaches drover.
func (s *Sandbox) grpcAddress() string {
	if s.front != nil {
		return s.front.address()
	}
	return s.options.GRPCAddress
}

// fast sets the times of a demo: what takes ten minutes in a real cluster takes seconds in the demo.
func fast(o autoscaler.Options) autoscaler.Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.ScanInterval, time.Second},
		{&o.ScaleDownUnneededTime, 8 * time.Second},
		{&o.ScaleDownDelayAfterAdd, 3 * time.Second},
		{&o.ScaleDownDelayAfterFailure, 5 * time.Second},
		{&o.ScaleDownUnreadyTime, 10 * time.Second},
		{&o.BackoffReset, time.Minute},
		{&o.MaxNodeProvisionTime, 2 * time.Minute},
		{&o.InitialBackoff, 5 * time.Second},
		{&o.MaxBackoff, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return o
}

func (s *Sandbox) runStandIn() error {
	conn, err := s.Dial()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(s.Target.Config)
	if err != nil {
		return fmt.Errorf("making the autoscaler's client: %w", err)
	}
	log, err := os.OpenFile(s.LogFile("autoscaler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("creating the autoscaler's log: %w", err)
	}
	o := fast(s.options.Scaling)
	// The flags that drover ships for a real autoscaler set the same values.
	o.EnforceMinSize, o.BalanceSimilar = true, true
	o.BalancingIgnore = []string{"topology.cinder.csi.openstack.org/zone", kubelet.HostLabel}
	o.Provider, o.Client, o.Log = proto.NewCloudProviderClient(conn), client, lineLogger(log)
	if o.StartupTaints == nil {
		o.StartupTaints = []string{startupTaint}
	}
	ctx, cancel := context.WithCancel(s.running)
	a, err := autoscaler.New(ctx, o)
	if err != nil {
		cancel()
		return fmt.Errorf("starting the autoscaler stand-in: %w", err)
	}
	ended := make(chan struct{})
	s.work.Go(func() {
		defer close(ended)
		_ = a.Run(ctx)
		_ = conn.Close()
		_ = log.Close()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standIn = func() {
		cancel()
		<-ended
	}
	return nil
}

func lineLogger(file *os.File) logr.Logger {
	return funcr.New(func(_, args string) { _, _ = fmt.Fprintln(file, args) }, funcr.Options{LogTimestamp: true})
}
