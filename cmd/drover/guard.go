package main

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/machines/safety/reach"
)

// guarded reports whether drover may trust values that admission policies protect from the authors of Machines.
type guarded interface{ InForce() bool }

// newGuarded returns the check of whether the guard policies are in force, and adds the check to the manager.
func newGuarded(mgr manager.Manager) (guarded, error) {
	shipped, err := deploy.Objects("policies")
	if err != nil {
		return nil, fmt.Errorf("reading the shipped policies: %w", err)
	}
	watch, err := guard.New(guard.Options{
		Reader: mgr.GetAPIReader(), Shipped: shipped, Events: mgr.GetEventRecorder("drover-guard"), Clock: clock.RealClock{}, Registry: metrics.Registry,
	})
	if err != nil {
		return nil, fmt.Errorf("making the check of the guard policies: %w", err)
	}
	if err := mgr.Add(watch); err != nil {
		return nil, fmt.Errorf("adding the check of the guard policies: %w", err)
	}
	return watch, nil
}

// addGuards adds two checks that other parts of drover use before they act: whether the guard policies are in force, and
// whether the API servers answer. The second check runs on every replica.
func addGuards(w *wiring, o *options) (err error) {
	mgr := w.controllers
	if w.guarded, err = newGuarded(mgr); err != nil {
		return err
	}
	asked := reach.Options{Control: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if !o.has(noLeaderElection) {
		asked.Lease = types.NamespacedName{Namespace: o.namespace, Name: leaseName}
	}
	if o.targetKubeconfig != "" {
		asked.Target = w.target.GetAPIReader()
	}
	w.reach = reach.New(asked)
	// The API server counts as reachable from now on: it has just answered the checks at the start of drover.
	w.reach.AnsweredControl()
	if err := errors.Join(metrics.Registry.Register(w.reach), mgr.Add(w.reach)); err != nil {
		return fmt.Errorf("adding the check of the API servers: %w", err)
	}
	return nil
}

// staleness returns the reason why data from the API servers may be stale; empty when it is not.
func (w *wiring) staleness() string {
	stale, _ := w.reach.Stale()
	return stale
}
