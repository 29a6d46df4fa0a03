package autoscaler

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/proto"
)

// Options configure the stand-in. The times bear the names of cluster-autoscaler's flags; zero means that program's
// default.
type Options struct {
	// Provider is the gRPC service; Timeout bounds each call to it.
	Provider proto.CloudProviderClient
	Timeout  time.Duration
	Client   kubernetes.Interface
	Clock    clock.WithTicker
	Log      logr.Logger

	ScanInterval          time.Duration
	ScaleDownUnneededTime time.Duration
	// ScaleDownUnreadyTime is how long a node that does not work is kept.
	ScaleDownUnreadyTime       time.Duration
	ScaleDownDelayAfterAdd     time.Duration
	ScaleDownDelayAfterFailure time.Duration
	NodeDeleteDelay            time.Duration
	MaxNodeProvisionTime       time.Duration
	MaxNodeStartupTime         time.Duration
	InitialBackoff             time.Duration
	MaxBackoff                 time.Duration
	// BackoffReset is after how long without a failure a group's back-off begins anew.
	BackoffReset time.Duration
	// MaxScaleDownParallelism is how many nodes may be going at once, MaxDrainParallelism how many of them with pods.
	MaxScaleDownParallelism, MaxDrainParallelism int
	// UtilizationThreshold is the share of requested resources below which a node may be unneeded.
	UtilizationThreshold float64
	// StartupTaints are taints that go before pods come: a node with one counts as not started.
	StartupTaints []string
	// NoFrequentLoops leaves all loops to the scan interval.
	NoFrequentLoops bool
	// EnforceMinSize scales groups up to their minimum.
	EnforceMinSize bool
	// PriceExpander chooses the group that costs least for what is needed, in the place of the one that helps most pods.
	PriceExpander bool
	// BalanceSimilar lets groups that are alike grow evenly; BalancingIgnore are labels in which they may differ.
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
