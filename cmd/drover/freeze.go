package main

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/safety/freeze"
)

// addFreeze adds the controller that freezes node groups with far more Machines than their size.
func addFreeze(w wiring, o freezeOptions) error {
	freezes, err := freeze.New(freeze.Options{
		Control: w.controllers, Clock: clock.RealClock{}, Lease: w.lease, Registry: metrics.Registry,
		Limits: freeze.Limits{Up: o.up, Down: o.down, Period: o.period},
	})
	if err != nil {
		return fmt.Errorf("making the controller that freezes groups: %w", err)
	}
	return freezes.SetupWithManager(w.controllers)
}
