package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Listing is the entry of a node group in the answer to NodeGroups.
type Listing struct {
	// ID is MachineDeployment/<namespace>/<name>.
	ID string
	// Min and Max bound the autoscaler's changes. Users may set sizes outside these bounds.
	Min, Max int32
	// Debug describes the group in one line for users.
	Debug string
}

// View is the list of groups as of the last Refresh, together with the newest snapshot. It is immutable.
//
// Sizes and instances follow the snapshot immediately. The listed groups and their bounds change only at a Refresh: in its
// loop the autoscaler sends requests for each listed group, and one failed answer ends the loop for all groups (CA-C14, C15,
// C21).
type View struct {
	Snapshot *Snapshot
	// Entries are sorted by id (CA-C22).
	Entries []*Entry
	// ByID holds the entries by group id.
	ByID map[string]*Entry
	// Listed is when the list was made.
	Listed time.Time
}

// Entry is one listed group. When its object is deleted during a loop of the autoscaler, the entry keeps the object's last
// version.
type Entry struct {
	*Group
	// Low and High are the bounds in the list: Min and Most of the Group at that time.
	Low, High int32
}

// NewView lists the groups of a snapshot. A group in guarded is listed with a lower maximum, so that the autoscaler does not
// increase it.
func NewView(s *Snapshot, now time.Time, guarded map[string]bool) *View {
	v := &View{Snapshot: s, ByID: map[string]*Entry{}, Listed: now}
	for id, g := range s.Groups {
		if g.Refusal != "" {
			continue
		}
		e := &Entry{Group: g, Low: g.Min, High: g.Most}
		if guarded[id] {
			e.High = min(g.Max, max(g.Target, 1))
		}
		v.ByID[id] = e
		v.Entries = append(v.Entries, e)
	}
	slices.SortFunc(v.Entries, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	return v
}

// Over returns the same list of groups with a newer snapshot.
func (v *View) Over(s *Snapshot) *View {
	next := &View{Snapshot: s, ByID: make(map[string]*Entry, len(v.ByID)), Entries: make([]*Entry, len(v.Entries)), Listed: v.Listed}
	for n, e := range v.Entries {
		if g := s.Groups[e.ID]; g != nil && g != e.Group && g.Owner.GetUID() == e.Owner.GetUID() {
			e = &Entry{Group: g, Low: e.Low, High: e.High}
		}
		next.Entries[n], next.ByID[e.ID] = e, e
	}
	return next
}

// List returns the listed groups in the order of their ids.
func (v *View) List() []Listing {
	list := make([]Listing, 0, len(v.Entries))
	for _, e := range v.Entries {
		list = append(list, e.listing())
	}
	return list
}

// ForNode returns the group that a node belongs to. It returns false for a node that belongs to no Machine, for a node whose
// Machine is being removed, and for a node of a group that is not listed (CA-C25 … C35).
func (v *View) ForNode(n membership.Node) (Listing, bool) {
	id := ""
	if owner := v.Snapshot.groupOf(n); owner != nil {
		id = owner.ID
	} else if p, ok := n.Placeholder(); ok {
		// The group of a deployment that has just been deleted stays on the list, and its placeholders still belong to it.
		id = p.Group
	}
	e := v.ByID[id]
	if e == nil {
		return Listing{}, false
	}
	return e.listing(), true
}

func (e *Entry) listing() Listing {
	return Listing{ID: e.ID, Min: e.Low, Max: e.High, Debug: e.debug}
}
