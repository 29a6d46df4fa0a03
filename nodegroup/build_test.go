package nodegroup

import (
	"maps"
	"slices"
	"testing"
)

// build returns the snapshot of a cluster.
func build(w *world, d Discovery) *Snapshot {
	var events []event
	for _, o := range w.objects() {
		events = append(events, event{object: o})
	}
	return empty(Rules{Discovery: d}).apply(events, noon)
}

// snapshotOf returns the snapshot of a cluster, and checks it.
func snapshotOf(t testing.TB, w *world) *Snapshot {
	t.Helper()
	s := build(w, Discovery{})
	if err := soundness(s); err != nil {
		t.Fatalf("the snapshot breaks an invariant: %v", err)
	}
	return s
}

// soundness returns the first broken invariant of a snapshot, whatever was checked when it was made.
func soundness(s *Snapshot) error {
	if s.flaw != nil {
		return s.flaw
	}
	all := *s
	all.shown = table[string]{}
	return all.show(nil, slices.Sorted(maps.Keys(s.groups)))
}
