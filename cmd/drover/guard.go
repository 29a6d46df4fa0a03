package main

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/guard"
)

// guarded reports whether values that admission policies keep authors from writing may be believed.
type guarded interface{ InForce() bool }

// newGuarded makes what looks at the guard policies, and lets the manager run it.
func newGuarded(mgr manager.Manager) (guarded, error) {
	shipped, err := deploy.Objects("policies")
	if err != nil {
		return nil, fmt.Errorf("reading the shipped policies: %w", err)
	}
	watch, err := guard.New(guard.Options{
		Reader: mgr.GetAPIReader(), Shipped: shipped, Events: mgr.GetEventRecorder("drover-guard"), Clock: clock.RealClock{}, Registry: metrics.Registry,
	})
	if err != nil {
		return nil, fmt.Errorf("making the look at the guard policies: %w", err)
	}
	if err := mgr.Add(watch); err != nil {
		return nil, fmt.Errorf("adding the look at the guard policies: %w", err)
	}
	return watch, nil
}
