package sandbox

import (
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/drover-project/drover/test/autoscaler"
	"github.com/drover-project/drover/test/openstack"
)

// Options configures [Start]. The zero value is a complete sandbox.
type Options struct {
	// Dir holds keys, logs and data. Empty means a new folder under the system's temporary one. Stop removes the folder
	// in both cases.
	Dir string
	// NoDrover leaves out drover, its manifests and the autoscaler; the caller installs and runs them.
	NoDrover bool
	// Drover is the path of drover's binary. Empty means that it is built from this module.
	Drover string
	// DroverFlags are appended to drover's own flags.
	DroverFlags []string
	// Replicas is the number of drover replicas. The default is one. The autoscaler reaches the replica that [Sandbox.FailOver] chose last,
	// as through a Service.
	Replicas int
	// TwoClusters puts Machines and Nodes into separate clusters.
	TwoClusters bool
	// GRPCAddress, MetricsAddress and HealthAddress are drover's addresses; loopback only. The default is free ports.
	GRPCAddress, MetricsAddress, HealthAddress string
	// Password is the password with which drover signs in to the cloud. Empty means the correct one.
	Password string
	// BootTime is how long a simulated server boots. The default is 3 s.
	BootTime time.Duration
	// Heartbeat is the interval at which kubelets report, and notice that they fail or were restarted. The default is that of
	// test/kubelet, 10 s.
	Heartbeat time.Duration
	// CloudControllerInterval is the interval at which the simulated cloud-controller-manager reads Nodes and servers. A new Node may wait
	// that long until it is initialized. The default is 1 s.
	CloudControllerInterval time.Duration
	// Seed adds the contents of the simulated cloud. The default is openstack.SeedMetaKube.
	Seed func(*openstack.Cloud)
	// Autoscaler is the path of a real cluster-autoscaler. Empty means a simulated one (test/autoscaler).
	Autoscaler string
	// AutoscalerFlags are appended to the flags of a real autoscaler.
	AutoscalerFlags []string
	// NoAutoscaler means that no autoscaler is started.
	NoAutoscaler bool
	// Scaling holds the times of the simulated autoscaler. The sandbox itself sets the fields for the autoscaler's
	// connections.
	Scaling autoscaler.Options
	// Boots reports whether a server ever becomes a node. Nil means that all servers do.
	Boots func(openstack.Server) bool
	// Log receives a line for each step. By default the lines are dropped.
	Log io.Writer
}

const (
	defaultBootTime = 3 * time.Second
	// readyAfter is how long the network of a simulated node takes to start.
	readyAfter = 500 * time.Millisecond
)

// check refuses options that would otherwise fail only after everything else has started.
func (o Options) check() error {
	if o.BootTime < 0 {
		return fmt.Errorf("--boot-time %s: a server cannot boot before it was made; give a time from 0 on", o.BootTime)
	}
	if o.CloudControllerInterval < 0 {
		return fmt.Errorf("--cloud-controller-interval %s is negative; give 0 for the default, or more", o.CloudControllerInterval)
	}
	if o.Drover == "" {
		return nil
	}
	if _, err := exec.LookPath(o.Drover); err != nil {
		return fmt.Errorf("--drover %s: %w; name drover's binary, or leave the flag out to have it built", o.Drover, err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Boots == nil {
		o.Boots = func(openstack.Server) bool { return true }
	}
	if o.Seed == nil {
		o.Seed = openstack.SeedMetaKube
	}
	if o.BootTime == 0 {
		o.BootTime = defaultBootTime
	}
	for _, address := range []*string{&o.GRPCAddress, &o.MetricsAddress, &o.HealthAddress} {
		if *address == "" {
			*address = "127.0.0.1:0"
		}
	}
	return o
}
