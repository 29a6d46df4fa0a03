package model

import (
	"maps"
	"slices"
	"testing"

	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/nodegroup/model/persistent"
	"github.com/drover-project/drover/test/pools"
)

// build returns the snapshot of a cluster on OpenStack.
func build(w *pools.World, d Discovery) *Snapshot {
	var events []membership.Event
	for _, o := range w.Objects() {
		events = append(events, membership.Event{Object: o})
	}
	d.Cloud = pools.OpenStack
	return Empty(Rules{Discovery: d}).Apply(events, pools.Noon)
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
	all.shown = persistent.Map[string]{}
	return all.show(nil, slices.Sorted(maps.Keys(s.Groups)))
}
