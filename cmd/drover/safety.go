package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// freezeOptions set how many Machines beyond its size a node group may have before it is frozen, and how many rollouts replace at once.
// The flags of the freeze and their defaults are those of machine-controller-manager.
type freezeOptions struct {
	up, down     int
	period       time.Duration
	maxReplacing int
}

func (o *freezeOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.up, "safety-up", o.up, "a MachineSet with this many Machines too many is frozen: it makes no further ones")
	f.IntVar(&o.down, "safety-down", o.down, "a frozen MachineSet is released when it has this many Machines fewer; from 1 to --safety-up")
	f.DurationVar(&o.period, "machine-safety-overshooting-period", o.period, "how often a frozen MachineSet is looked at without any change; 0: none is frozen")
	f.IntVar(&o.maxReplacing, "max-replacing", o.maxReplacing, "how many Machines rollouts may replace at once, over all MachineDeployments; 0: no limit beside their own")
}

// safetyUp returns the option of the same name of the controller of sets.
func (o *freezeOptions) safetyUp() int {
	if o.period == 0 {
		return -1
	}
	return o.up
}

func (o *freezeOptions) validate() error {
	return errors.Join(
		unless(o.up >= 1, "--safety-up %d is less than 1: a rollout would freeze its own group", o.up),
		unless(o.down >= 1 && o.down <= o.up, "--safety-down %d is not from 1 to --safety-up (%d): a frozen set could not be set free", o.down, o.up),
		unless(o.period == 0 || o.period >= time.Second, "--machine-safety-overshooting-period %v is neither 0 nor a second or more", o.period),
		unless(o.maxReplacing >= 0, "--max-replacing %d is negative", o.maxReplacing),
	)
}

// The values of --orphans.
const (
	collectOrphans = "collect"
	reportOrphans  = "report"
	ignoreOrphans  = "off"
)

// orphanOptions are the flags for the collection of cloud resources and Nodes without a Machine.
type orphanOptions struct {
	mode string
	age  time.Duration
}

func (o *orphanOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.mode, "orphans", o.mode, "what becomes of marked servers, ports, floating IPs and Nodes without a Machine: collect, report or off")
	f.DurationVar(&o.age, "orphan-age", o.age, "how long a Machine must have been gone before what it left is deleted, and its Node not Ready")
}

// period returns the time between two searches for orphans.
func (o *orphanOptions) period() time.Duration { return min(max(o.age, 5*time.Second), 15*time.Minute) }

func (o *orphanOptions) validate() error {
	return errors.Join(
		unless(o.mode == collectOrphans || o.mode == reportOrphans || o.mode == ignoreOrphans, "--orphans %q: it can be %s, %s or %s", o.mode, collectOrphans, reportOrphans, ignoreOrphans),
		unless(o.age >= 0, "--orphan-age %v is negative", o.age),
	)
}

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
		Control: mgr, Target: w.target, Cloud: its, Clock: clock.RealClock{},
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
