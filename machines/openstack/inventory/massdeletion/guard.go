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
	// window is how long a lost server is counted together with servers that are lost later. It equals the time between two
	// complete lists.
	window = servers.FullPeriod
	// Within the window, up to max(least, known/part) losses are accepted without confirmation; known is the number of servers.
	least = 3
	part  = 10
)

// TooMany reports whether lost servers, out of known servers in all, are too many to be accepted without confirmation: more than
// 3 and more than 10 %.
func TooMany(lost, known int) bool { return lost > max(least, known/part) }

// Held is the stored state of the guard of one project.
type Held struct {
	// Servers are the IDs of the missing servers whose loss the guard does not accept. They stay in this list however much time
	// passes.
	Servers []string `json:"servers,omitempty"`
	// Lost are the IDs of recently lost servers whose deletion drover did not request, with the time at which each loss was found.
	// They are counted together with the next losses.
	Lost map[string]time.Time `json:"lost,omitempty"`
}

func (h Held) equal(other Held) bool {
	return slices.Equal(h.Servers, other.Servers) && maps.Equal(h.Lost, other.Lost)
}

// Guard is the mass-deletion guard of one project. When too many servers are lost at the same time, it holds them: it does not
// accept their loss.
type Guard struct {
	// held has the IDs of the servers whose loss is not accepted.
	held map[string]bool
	// lost has the losses within the window that drover did not request, with the time at which each was found. stored marks the
	// losses that are already stored for the next leader. stores is true when the guard's state is stored.
	lost   map[string]time.Time
	stored map[string]bool
	stores bool
	// known is how many servers the cluster had when the guard last held a loss; Reason shows it.
	known int
	// dirty is true when held or lost differ from the stored state.
	dirty bool
	// loaded is true when the state of the previous leader has been read. ready is true when all servers that Machines name have
	// been looked up since the start, so that losses can be counted.
	loaded, ready bool
}

// New returns a guard that has counted no losses. If stores is true, the guard's state is stored, and a loss is accepted only
// after it has been stored.
func New(stores bool) *Guard {
	return &Guard{held: map[string]bool{}, lost: map[string]time.Time{}, stored: map[string]bool{}, stores: stores}
}

// Count counts the lost servers. When there are too many, the guard holds them: it does not accept their loss. Count releases
// held servers that exist again, or whose loss is expected by now, and then judges the others again. mine reports whether a server
// belongs to this cluster. The result reports whether the guard has a new state to store.
func (g *Guard) Count(now time.Time, all *servers.Cache, mine func(*servers.Known) bool) bool {
	before := g.state()
	lost, known := losses(now, all.All(), mine)
	known += g.updateLost(now, lost, all)
	if TooMany(len(g.lost), known) {
		for id := range g.lost {
			g.held[id] = true
		}
		g.known = known
	}
	g.judgeAgain(known, all)
	g.dirty = g.dirty || !before.equal(g.state())
	return g.dirty
}

// judgeAgain releases the held servers that exist again, or whose loss is expected by now. When it has released one, it releases
// the others too, if all current losses together are not too many. known is the number of servers, without held servers that were
// lost before the time window.
func (g *Guard) judgeAgain(known int, all *servers.Cache) {
	held := len(g.held)
	maps.DeleteFunc(g.held, func(id string, _ bool) bool {
		k := all.ByID(id)
		return k != nil && (k.Present() || k.Wanted)
	})
	if len(g.held) == held {
		return
	}
	earlier := 0
	for id := range g.held {
		if _, counted := g.lost[id]; !counted {
			earlier++
		}
	}
	if !TooMany(len(g.lost)+earlier, known+earlier) {
		clear(g.held)
	}
}

// state returns a copy of the state to store.
func (g *Guard) state() Held {
	return Held{Servers: slices.Sorted(maps.Keys(g.held)), Lost: maps.Clone(g.lost)}
}

// losses returns the servers of this cluster that are gone or missing although drover did not request their deletion, and the
// number of all servers of this cluster including the lost ones. A server that is gone counts for the time window; a server that
// is missing counts until it is found or proven gone.
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

// updateLost adds the new losses to g.lost. It removes losses that are older than the window, servers that exist again, and
// servers whose loss was expected or confirmed. unknown is the number of losses in g.lost that only the previous leader has seen.
func (g *Guard) updateLost(now time.Time, lost []string, all *servers.Cache) (unknown int) {
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

// Believes reports whether the guard accepts that all of these servers are gone. It accepts a loss that drover did not request
// only after this loss has been counted together with all other losses, and has been stored for the next leader.
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

// Holds reports whether the guard does not accept the loss of a server.
func (g *Guard) Holds(id string) bool { return g.held[id] }

// Held returns the number of servers whose loss the guard does not accept.
func (g *Guard) Held() int { return len(g.held) }

// Reason describes, for users, the losses that the guard does not accept; empty when there are none.
func (g *Guard) Reason() string {
	if len(g.held) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers of this project are gone at once: drover cleans nothing up until they are back or an operator confirms the loss (annotation %s: \"yes\" on the ConfigMap of the cluster ID)",
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

// IsReady reports whether MakeReady was called. Before that, the guard accepts no loss that drover did not request.
func (g *Guard) IsReady() bool { return g.ready }

// MakeReady records that every server that a Machine names has been looked up since the start.
func (g *Guard) MakeReady() { g.ready = true }
