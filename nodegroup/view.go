package nodegroup

import (
	"cmp"
	"slices"
	"time"
)

// view is the set of listed groups, as the last Refresh took it, over the newest snapshot. It does not change.
//
// Sizes and instances follow the snapshot at once; which groups there are, and their bounds, move only at a Refresh,
// because the autoscaler asks for each listed group in the course of its loop and ends the loop for all of them when one
// answer fails (CA-C14, C15, C21).
type view struct {
	snapshot *Snapshot
	// entries are in the order of their ids (CA-C22).
	entries []*entry
	byID    map[string]*entry
	// listed is when the set was taken.
	listed time.Time
}

// entry is one listed group. When its object goes away in the middle of a loop, the last that was known stays.
type entry struct {
	*group
	low, high int32
}

// newView lists the groups of a snapshot. Those that are guarded look as if they could not grow.
func newView(s *Snapshot, now time.Time, guarded map[string]bool) *view {
	v := &view{snapshot: s, byID: map[string]*entry{}, listed: now}
	for id, g := range s.groups {
		if g.refusal != "" {
			continue
		}
		e := &entry{group: g, low: g.min, high: g.max}
		if guarded[id] {
			e.high = min(g.max, max(g.target, 1))
		}
		v.byID[id] = e
		v.entries = append(v.entries, e)
	}
	slices.SortFunc(v.entries, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return v
}

// over gives the same set of groups over a newer snapshot.
func (v *view) over(s *Snapshot) *view {
	next := &view{snapshot: s, byID: make(map[string]*entry, len(v.byID)), entries: make([]*entry, len(v.entries)), listed: v.listed}
	for n, e := range v.entries {
		if g := s.groups[e.id]; g != nil && g != e.group && g.owner.GetUID() == e.owner.GetUID() {
			e = &entry{group: g, low: e.low, high: e.high}
		}
		next.entries[n], next.byID[e.id] = e, e
	}
	return next
}

func (e *entry) listing() Group {
	return Group{ID: e.id, Min: e.low, Max: e.high, Debug: e.debug}
}
