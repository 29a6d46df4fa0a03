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
	entries  []*entry
	byID     map[string]*entry
	// listed is when the set was taken.
	listed time.Time
}

// entry is one listed group. When its deployment goes away in the middle of a loop, the last that was known stays.
type entry struct {
	*group
	low, high int32
}

func newView(s *Snapshot, now time.Time) *view {
	v := &view{snapshot: s, byID: map[string]*entry{}, listed: now}
	for id, g := range s.groups {
		if g.refusal == "" {
			v.byID[id] = &entry{group: g, low: g.min, high: g.max}
		}
	}
	v.sort()
	return v
}

// over gives the same set of groups over a newer snapshot.
func (v *view) over(s *Snapshot) *view {
	next := &view{snapshot: s, byID: make(map[string]*entry, len(v.byID)), listed: v.listed}
	for id, e := range v.byID {
		next.byID[id] = e
		if g := s.groups[id]; g != nil && g.deployment.UID == e.deployment.UID {
			next.byID[id] = &entry{group: g, low: e.low, high: e.high}
		}
	}
	next.sort()
	return next
}

// sort puts the groups in the order of their ids (CA-C22).
func (v *view) sort() {
	v.entries = make([]*entry, 0, len(v.byID))
	for _, e := range v.byID {
		v.entries = append(v.entries, e)
	}
	slices.SortFunc(v.entries, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
}

func (e *entry) listing() Group {
	return Group{ID: e.id, Min: e.low, Max: e.high, Debug: e.debug}
}
