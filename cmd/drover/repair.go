package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/health"
	"github.com/drover-project/drover/machines/health/verdict"
)

// addRepair adds the controller that replaces unhealthy Machines.
func addRepair(w wiring, o *options) error {
	percent, err := o.repair.percent()
	if err != nil {
		return err
	}
	settings := verdict.Settings{
		Timeout: o.repair.timeout, StartTimeout: o.repair.startTimeout, MaxReplacing: intstr.Parse(o.repair.maxReplacing), MaxUnhealthy: percent, Join: o.joinTimeout,
	}
	for _, name := range o.repair.nodeConditions {
		settings.Conditions = append(settings.Conditions, corev1.NodeConditionType(name))
	}
	repair, err := health.New(health.Options{
		Control: w.controllers, Target: w.target, Clock: clock.RealClock{}, Lease: w.lease, Trust: w.reach.Stale,
		Controller: o.name, Settings: settings, Registry: metrics.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the controller of unhealthy Machines: %w", err)
	}
	return repair.SetupWithManager(w.controllers)
}
