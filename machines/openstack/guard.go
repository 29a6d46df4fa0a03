package openstack

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// guardWindow is how far apart losses may be and still count together: one full list.
	guardWindow = fullPeriod
	// guardLeast losses are always believed, and a tenth of what is known.
	guardLeast = 3
	guardPart  = 10
)

// guard is the mass guard (design §2.4): when too many of the cluster's servers in a project are gone at once, nothing is
// cleaned up. It ends when all of them are back, or by a person's word.
type guard struct {
	// held are the servers whose loss is not believed, by ID.
	held  map[string]bool
	known int
}

// losses gives the servers that are gone or missing though nobody here wanted it, within the window, and how many
// servers of ours there are with them.
func (inv *inventory) losses(now time.Time, mine func(*knownServer) bool) (lost []string, known int) {
	for id, k := range inv.servers {
		if !mine(k) {
			continue
		}
		switch {
		case !k.gone && !k.missing:
			known++
		case k.own, k.accepted:
		case k.missing, now.Sub(k.goneAt) <= guardWindow:
			known++
			lost = append(lost, id)
		}
	}
	return lost, known
}

// tooMany tells whether so many losses among so many servers are more than max(3, 10 %).
func tooMany(lost, known int) bool { return lost > max(guardLeast, known/guardPart) }

// look takes the losses in: too many of them are held; those that came back are not held any longer.
func (g *guard) look(lost []string, known int, servers map[string]*knownServer) {
	if tooMany(len(lost), known) {
		if g.held == nil {
			g.held = map[string]bool{}
		}
		for _, id := range lost {
			g.held[id] = true
		}
		g.known = known
	}
	for id := range g.held {
		if k := servers[id]; k == nil || !k.gone && !k.missing {
			delete(g.held, id)
		}
	}
}

// lift believes all losses, by a person's word.
func (g *guard) lift(servers map[string]*knownServer) {
	for id := range g.held {
		if k := servers[id]; k != nil {
			k.accepted = true
		}
	}
	g.held = nil
}

// reason is for people; empty when nothing is held.
func (g *guard) reason() string {
	if len(g.held) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers of this project are gone at once: nothing is cleaned up until they are back or a person says so (annotation %s: \"yes\" on the ConfigMap of the cluster id)",
		len(g.held), g.known, v1alpha1.AnnotationCollect)
}
