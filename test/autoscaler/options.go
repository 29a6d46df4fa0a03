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

	ScanInterval           time.Duration
	ScaleDownUnneededTime  time.Duration
	ScaleDownDelayAfterAdd time.Duration
	NodeDeleteDelay        time.Duration
	MaxNodeProvisionTime   time.Duration
	MaxNodeStartupTime     time.Duration
	InitialBackoff         time.Duration
	MaxBackoff             time.Duration
	// UtilizationThreshold is the share of requested resources below which a node may be unneeded.
	UtilizationThreshold float64
	// StartupTaints are taints that go before pods come: a node with one counts as not started.
	StartupTaints []string
	// EnforceMinSize scales groups up to their minimum.
	EnforceMinSize bool
}

func (o Options) withDefaults() Options {
	durations := []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Timeout, defaultTimeout},
		{&o.ScanInterval, 10 * time.Second},
		{&o.ScaleDownUnneededTime, 10 * time.Minute},
		{&o.ScaleDownDelayAfterAdd, 10 * time.Minute},
		{&o.MaxNodeProvisionTime, 15 * time.Minute},
		{&o.MaxNodeStartupTime, 15 * time.Minute},
		{&o.InitialBackoff, 5 * time.Minute},
		{&o.MaxBackoff, 30 * time.Minute},
	}
	for _, d := range durations {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.UtilizationThreshold == 0 {
		o.UtilizationThreshold = 0.5
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}
