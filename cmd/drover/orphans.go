package main

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

const (
	// maxPerPass is how many deletions of one search for orphans may be accepted, and how many of their Nodes are drained at a time.
	maxPerPass = 10
	// volumeDetachTimeout is how long the volumes of a drained Node may take to be detached. An annotation of a Machine's group changes it.
	volumeDetachTimeout = 5 * time.Minute
)

// addOrphans adds the collector of resources without a Machine.
func addOrphans(w wiring, o *options, its cloud.Cloud) error {
	if o.orphans.mode == ignoreOrphans {
		return nil
	}
	mgr := w.controllers
	collector, err := orphans.New(orphans.Options{
		Control: mgr, Target: w.target, Cloud: w.cloud(its), Clock: clock.RealClock{},
		Settings: verdict.Settings{ReportOnly: o.orphans.mode == reportOrphans, Age: o.orphans.age},
		Period:   o.orphans.period(), MaxPerPass: maxPerPass, DrainTimeout: o.drainTimeout, VolumeTimeout: volumeDetachTimeout,
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
