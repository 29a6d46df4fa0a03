package model

import (
	"maps"
	"slices"
	"testing"

	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// build returns the snapshot of a cluster on OpenStack.
func build(w *pools.World, d Discovery) *Snapshot { return buildBy(w, Rules{Discovery: d}) }

// buildBy returns the snapshot of a cluster on OpenStack under the rules.
func buildBy(w *pools.World, r Rules) *Snapshot {
	var events []membership.Event
	for _, o := range w.Objects() {
		events = append(events, membership.Event{Object: o})
	}
	r.Discovery.Cloud = pools.OpenStack
	return Empty(r).Apply(events, pools.Noon)
}

// snapshotOf returns the snapshot of a cluster. It fails the test when the snapshot breaks an invariant.
func snapshotOf(t testing.TB, w *pools.World) *Snapshot {
	t.Helper()
	s := build(w, Discovery{})
	if err := soundness(s); err != nil {
		t.Fatalf("the snapshot breaks an invariant: %v", err)
	}
	return s
}

// soundness returns the first broken invariant of a snapshot. It repeats the checks that were made when the snapshot was
// made.
func soundness(s *Snapshot) error {
	if s.flaw != nil {
		return s.flaw
	}
	all := *s
	all.shown = membership.Table[string]{}
	return all.show(nil, slices.Sorted(maps.Keys(s.Groups)))
}
