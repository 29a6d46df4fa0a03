package massdeletion

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

const (
	// window is how far apart losses may be and still count together: one full list.
	window = servers.FullPeriod
	// Up to max(least, known/part) losses within the window are accepted without confirmation.
	least = 3
	part  = 10
)

// TooMany reports whether so many losses among so many servers are more than max(3, 10 %).
func TooMany(lost, known int) bool { return lost > max(least, known/part) }

// Held is what the guard of one project keeps.
type Held struct {
	// Servers are the IDs of servers whose loss is not believed. They have no age.
	Servers []string `json:"servers,omitempty"`
	// Lost are the IDs of servers that were lost lately though nobody here wanted it, with the time at which each loss was
	// found. They count together with the next ones.
	Lost map[string]time.Time `json:"lost,omitempty"`
}

func (h Held) equal(other Held) bool {
	return slices.Equal(h.Servers, other.Servers) && maps.Equal(h.Lost, other.Lost)
}

// Guard is the mass-deletion guard of one project.
type Guard struct {
	// held are the servers whose loss is not believed, by ID.
	held map[string]bool
	// lost are the losses within the window that nobody here wanted: when each was found. stored are those of them that a
	// successor would know of; stores: it can know of any.
	lost   map[string]time.Time
	stored map[string]bool
	stores bool
	// known is how many servers there were when the guard held losses last.
	known int
	// dirty: held or lost differ from what is stored.
	dirty bool
	// loaded: what a predecessor stored has been read. ready: so many servers have been looked at since the start that
	// losses can be counted.
	loaded, ready bool
}

// New returns a guard that holds nothing. stores: what it holds is stored, and no loss counts before that.
func New(stores bool) *Guard {
	return &Guard{held: map[string]bool{}, lost: map[string]time.Time{}, stored: map[string]bool{}, stores: stores}
}

// Count counts the losses: too many of them are held; servers that came back are not held any longer. mine reports whether a server
// is one of this cluster. Count reports whether there is something new to be stored.
func (g *Guard) Count(now time.Time, all *servers.Cache, mine func(*servers.Known) bool) bool {
	before := g.state()
	lost, known := losses(now, all.All(), mine)
	known += g.keep(now, lost, all)
	if TooMany(len(g.lost), known) {
		for id := range g.lost {
			g.held[id] = true
		}
		g.known = known
	}
	for id := range g.held {
		if k := all.ByID(id); k != nil && k.Present() {
			delete(g.held, id)
		}
	}
	g.dirty = g.dirty || !before.equal(g.state())
	return g.dirty
}

// state returns a copy of what is to be stored.
func (g *Guard) state() Held {
	return Held{Servers: slices.Sorted(maps.Keys(g.held)), Lost: maps.Clone(g.lost)}
}

// losses returns the servers that are gone or missing though nobody here wanted it, and how many servers of ours there are
// with them. One that is gone counts for the window.
func losses(now time.Time, all iter.Seq[*servers.Known], mine func(*servers.Known) bool) (lost []string, known int) {
	for k := range all {
		if !mine(k) {
			continue
		}
		switch {
		case k.Present():
			known++
		case k.Wanted, k.Accepted:
		case k.Missing, now.Sub(k.GoneAt) <= window:
			known++
			lost = append(lost, k.ID)
		}
	}
	return lost, known
}

// keep keeps the losses of the window: it adds those that are new, and drops those that are over or were none. It returns
// how many of them are of servers that only a predecessor knew.
func (g *Guard) keep(now time.Time, lost []string, all *servers.Cache) (unknown int) {
	current := make(map[string]bool, len(lost))
	for _, id := range lost {
		current[id] = true
		if _, counted := g.lost[id]; !counted {
			g.lost[id] = now
		}
	}
	for id, since := range g.lost {
		switch k := all.ByID(id); {
		case current[id]:
		case k != nil && (!k.Gone || k.Wanted || k.Accepted), now.Sub(since) > window:
			delete(g.lost, id)
		case k == nil:
			unknown++
		}
	}
	return unknown
}

// Believes reports whether all of these servers count as gone. A loss that nobody here wanted counts once it was counted together
// with all others, and a successor would know of it.
func (g *Guard) Believes(gone []*servers.Known) bool {
	for _, k := range gone {
		_, lost := g.lost[k.ID]
		switch {
		case k.Wanted, k.Accepted:
		case g.held[k.ID], !g.ready, lost && g.stores && !g.stored[k.ID]:
			return false
		}
	}
	return true
}

// Holds reports whether the loss of a server is not believed.
func (g *Guard) Holds(id string) bool { return g.held[id] }

// Held returns how many servers' losses are not believed.
func (g *Guard) Held() int { return len(g.held) }

// Reason returns for people what is held; empty: nothing.
func (g *Guard) Reason() string {
	if len(g.held) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers of this project are gone at once: nothing is cleaned up until they are back or an operator confirms it (annotation %s: \"yes\" on the ConfigMap of the cluster id)",
		len(g.held), max(g.known, len(g.held)), v1alpha1.AnnotationCollect)
}

// Accept accepts all held losses after an operator confirmed them.
func (g *Guard) Accept(all *servers.Cache) {
	for id := range g.held {
		if k := all.ByID(id); k != nil {
			k.Accepted = true
		}
	}
	g.held, g.lost, g.dirty = map[string]bool{}, map[string]time.Time{}, true
}

// IsReady reports whether losses may be believed: MakeReady was called.
func (g *Guard) IsReady() bool { return g.ready }

// MakeReady notes that every server that a Machine names has been looked at since the start.
func (g *Guard) MakeReady() { g.ready = true }
