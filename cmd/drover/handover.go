package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/handover"
)

// handoverOptions are the flags about running next to machine-controller.
type handoverOptions struct {
	// lease is machine-controller's lease, as namespace/name. It is empty when drover does not take that lease.
	lease string
}

func (o *handoverOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.lease, "machine-controller-lease", o.lease, "lease of machine-controller (namespace/name) that drover takes with its own, so that the two never act at the same time; empty: none")
}

func (o *handoverOptions) validate() error {
	if _, _, _, err := handover.ParseLease(o.lease); err != nil {
		return fmt.Errorf("--machine-controller-lease %q %w", o.lease, err)
	}
	return nil
}

// withOther returns a lock that holds both own, which is drover's own lease, and machine-controller's lease. It also returns a
// Standby, which reports that drover waits for machine-controller's lease. When the flag names no lease, withOther returns own
// and nil. Each call to the API server takes at most timeout.
func (o *handoverOptions) withOther(config *rest.Config, own resourcelock.Interface, namespace string, timeout time.Duration) (resourcelock.Interface, *handover.Standby, error) {
	otherNamespace, name, named, err := handover.ParseLease(o.lease)
	if err != nil || !named {
		return own, nil, err
	}
	holder := handover.Holder(namespace)
	other, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, otherNamespace, name,
		resourcelock.ResourceLockConfig{Identity: holder}, config, timeout)
	if err != nil {
		return nil, nil, fmt.Errorf("making the lock of lease %s: %w", o.lease, err)
	}
	standby, err := handover.NewStandby(otherNamespace, name, ctrl.Log.WithName("standby"), metrics.Registry)
	if err != nil {
		return nil, nil, err
	}
	return handover.NewLock(handover.LockOptions{Own: own, Other: other, Holder: holder, Seen: standby.Seen}), standby, nil
}

// addHandover makes the manager check for webhooks of machine-controller whose service does not run, and record Events while
// drover waits for machine-controller. standby is nil when drover does not take machine-controller's lease. refusals reports drover's writes
// that a webhook has refused.
func addHandover(mgr manager.Manager, standby *handover.Standby, refusals handover.Refusals) error {
	if standby != nil {
		standby.RecordTo(mgr.GetEventRecorder("drover-standby"))
	}
	watch, err := handover.NewWatch(handover.WatchOptions{
		Reader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("drover-webhooks"), Clock: clock.RealClock{}, Refusals: refusals, Registry: metrics.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the check of webhooks: %w", err)
	}
	return mgr.Add(watch)
}
