package sandbox

import (
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/drover-project/drover/test/autoscaler"
	"github.com/drover-project/drover/test/openstack"
)

// Options say what [Start] puts up. The zero value is a whole sandbox.
type Options struct {
	// Dir holds keys, logs and data. Empty: a new folder under the system's temporary one. Stop removes it either way.
	Dir string
	// NoDrover leaves out drover, its manifests and the autoscaler; the caller installs and runs them.
	NoDrover bool
	// Drover is the path of drover's binary. Empty: it is built from this module.
	Drover string
	// DroverFlags are appended to drover's own.
	DroverFlags []string
	// Replicas is how many drovers run. Default: one. Of several, the autoscaler comes to the one that [Sandbox.FailOver]
	// chose last, as through a Service.
	Replicas int
	// TwoClusters puts Machines and Nodes into clusters of their own.
	TwoClusters bool
	// GRPCAddress, MetricsAddress and HealthAddress are where drover listens; loopback only. Default: free ports.
	GRPCAddress, MetricsAddress, HealthAddress string
	// Password is drover's password for the cloud. Empty: the right one.
	Password string
	// BootTime is how long a simulated server boots. Default: 3 s.
	BootTime time.Duration
	// CloudControllerInterval is how often the stand-in for the cloud-controller-manager looks at Nodes: so long may a new
	// Node have to wait until it is initialized. Default: 1 s.
	CloudControllerInterval time.Duration
	// Seed fills the simulated cloud. Default: openstack.SeedMetaKube.
	Seed func(*openstack.Cloud)
	// Autoscaler is the path of a real cluster-autoscaler. Empty: the stand-in.
	Autoscaler string
	// AutoscalerFlags are appended to those of a real autoscaler.
	AutoscalerFlags []string
	// NoAutoscaler leaves it out.
	NoAutoscaler bool
	// Scaling are the stand-in's times; its connections are filled in.
	Scaling autoscaler.Options
	// Boots tells whether a server ever becomes a node. Nil: all do.
	Boots func(openstack.Server) bool
	// Log takes a line per step. Default: dropped.
	Log io.Writer
}

const (
	defaultBootTime = 3 * time.Second
	// readyAfter is how long a simulated node's network takes to come up.
	readyAfter = 500 * time.Millisecond
)

// check refuses what would fail only after everything else has been started.
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
