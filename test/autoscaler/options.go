package autoscaler

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/proto"
)

// Options configures the simulated autoscaler. The times have the names of cluster-autoscaler's flags; zero means cluster-autoscaler's
// default.
type Options struct {
	// Provider is the gRPC client. Timeout is the deadline of each call to it.
	Provider proto.CloudProviderClient
	Timeout  time.Duration
	Client   kubernetes.Interface
	Clock    clock.WithTicker
	Log      logr.Logger

	ScanInterval          time.Duration
	ScaleDownUnneededTime time.Duration
	// ScaleDownUnreadyTime is how long an unready node must be unneeded before it is removed.
	ScaleDownUnreadyTime       time.Duration
	ScaleDownDelayAfterAdd     time.Duration
	ScaleDownDelayAfterFailure time.Duration
	NodeDeleteDelay            time.Duration
	MaxNodeProvisionTime       time.Duration
	MaxNodeStartupTime         time.Duration
	InitialBackoff             time.Duration
	MaxBackoff                 time.Duration
	// BackoffReset is the time without a failure after which a group's back-off starts again from its initial value.
	BackoffReset time.Duration
	// MaxScaleDownParallelism is how many nodes may be deleted at the same time. MaxDrainParallelism is how many of
	// them may have pods.
	MaxScaleDownParallelism, MaxDrainParallelism int
	// UtilizationThreshold is a share of a node's resources. A node may be unneeded when its pods request less.
	UtilizationThreshold float64
	// StartupTaints are the keys of taints that are removed before pods run: a node with one of them counts as not started.
	StartupTaints []string
	// NoFrequentLoops runs loops only at the scan interval.
	NoFrequentLoops bool
	// EnforceMinSize scales groups up to their minimum.
	EnforceMinSize bool
	// PriceExpander chooses the group with the lowest cost instead of the one that takes the most pods.
	PriceExpander bool
	// BalanceSimilar makes similar groups grow evenly. BalancingIgnore are labels in which similar groups may differ.
	BalanceSimilar  bool
	BalancingIgnore []string
}

func (o Options) withDefaults() Options {
	durations := []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Timeout, defaultTimeout},
		{&o.ScanInterval, 10 * time.Second},
		{&o.ScaleDownUnneededTime, 10 * time.Minute},
		{&o.ScaleDownUnreadyTime, 20 * time.Minute},
		{&o.ScaleDownDelayAfterAdd, 10 * time.Minute},
		{&o.ScaleDownDelayAfterFailure, 3 * time.Minute},
		{&o.MaxNodeProvisionTime, 15 * time.Minute},
		{&o.MaxNodeStartupTime, 15 * time.Minute},
		{&o.InitialBackoff, 5 * time.Minute},
		{&o.MaxBackoff, 30 * time.Minute},
		{&o.BackoffReset, 3 * time.Hour},
	}
	for _, d := range durations {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.UtilizationThreshold == 0 {
		o.UtilizationThreshold = 0.5
	}
	if o.MaxScaleDownParallelism == 0 {
		o.MaxScaleDownParallelism = 10
	}
	if o.MaxDrainParallelism == 0 {
		o.MaxDrainParallelism = 1
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}
