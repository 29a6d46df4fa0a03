package main

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// addOrphans adds the collector of resources without a Machine.
func addOrphans(w wiring, o *options, its cloud.Cloud) error {
	if o.orphans.mode == ignoreOrphans {
		return nil
	}
	mgr := w.controllers
	collector, err := orphans.New(orphans.Options{
		Control: mgr, Target: w.target, Cloud: w.cloud(its), Clock: clock.RealClock{},
		Settings: verdict.Settings{
			ReportOnly: o.orphans.mode == reportOrphans, Age: o.orphans.age,
		},
		Period: o.orphans.period, MaxPerPass: o.orphans.maxPerPass, DrainTimeout: o.drainTimeout, VolumeTimeout: o.machines.volumeDetachTimeout,
		Namespace: o.namespace, Lease: w.lease, Stale: w.staleness, Observed: o.observe, Registry: metrics.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the collector of orphans: %w", err)
	}
	if err := collector.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding the collector of orphans: %w", err)
	}
	return nil
}
