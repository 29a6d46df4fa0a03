package nodegroup

import (
	"cmp"
	"slices"
	"time"
)

// Group is a node group as it is listed.
type Group struct {
	// ID is MachineDeployment/<namespace>/<name>.
	ID string
	// Min and Max bound what the autoscaler may do; people may go beyond.
	Min, Max int32
	// Debug is a line for people.
	Debug string
}

// view is the set of listed groups, as of the last Refresh, with what the newest snapshot has of them. It is immutable.
//
// Sizes and instances follow the snapshot at once. Which groups are listed, and their bounds, change only at a Refresh,
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

// entry is one listed group. When its object is deleted in the middle of a loop, the last version stays.
type entry struct {
	*group
	low, high int32
}

// newView lists the groups of a snapshot. Those with these ids look as if they could not grow.
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

// over returns the same set of groups with what a newer snapshot has of them.
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

// list returns the listed groups in the order of their ids.
func (v *view) list() []Group {
	list := make([]Group, 0, len(v.entries))
	for _, e := range v.entries {
		list = append(list, e.listing())
	}
	return list
}

// forNode returns the group that a node belongs to; false for a foreign node, for one whose Machine is being removed, and for
// one of a group that is not listed (CA-C25 … C35).
func (v *view) forNode(n Node) (Group, bool) {
	id := ""
	if owner := v.snapshot.groupOf(n); owner != nil {
		id = owner.id
	} else if p, ok := n.placeholder(); ok {
		// A placeholder of a group whose deployment has just been deleted still has its group.
		id = p.group
	}
	e := v.byID[id]
	if e == nil {
		return Group{}, false
	}
	return e.listing(), true
}

func (e *entry) listing() Group {
	return Group{ID: e.id, Min: e.low, Max: e.high, Debug: e.debug}
}
