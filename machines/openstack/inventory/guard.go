package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// guardWindow is how far apart losses may be and still count together: one full list.
	guardWindow = FullPeriod
	// Up to max(guardLeast, known/guardPart) losses within guardWindow are accepted without confirmation.
	guardLeast = 3
	guardPart  = 10
)

// Held is what the mass guard of one project keeps.
type Held struct {
	// Servers are the IDs of servers whose loss is not believed. They have no age.
	Servers []string `json:"servers,omitempty"`
	// Lost are the IDs of servers that were lost lately though nobody here wanted it, with the time at which each loss was
	// found. They count together with the next ones.
	Lost map[string]time.Time `json:"lost,omitempty"`
}

// Holds keeps what the mass guard holds, for whoever leads next.
type Holds interface {
	// Load returns what was stored last for a project in a region; zero when nothing was.
	Load(ctx context.Context, of HoldsKey) (Held, error)
	// Store replaces it.
	Store(ctx context.Context, of HoldsKey, h Held) error
}

// HoldsKey tells a project in a region from all others. The endpoint is the URL of its Keystone: a Keystone of an author's own
// may claim to have a project of any ID.
type HoldsKey struct{ Endpoint, Project, Region string }

func (p *Project) holdsKey() HoldsKey { return HoldsKey{p.endpoint, p.site.Project, p.site.Region} }

// guard is the mass guard: when too many of the cluster's servers in a project are gone at once, nothing is cleaned up. A hold
// ends when the server is back, or when an operator confirms the losses. It has no age and outlives the process.
type guard struct {
	// held are the servers whose loss is not believed, by ID.
	held map[string]bool
	// lost are the losses within guardWindow that nobody here wanted: when each was found. stored are those of them that a
	// successor would know of.
	lost   map[string]time.Time
	stored map[string]bool
	known  int
	// dirty: held or lost differ from what is stored.
	dirty bool
	// loaded: what a predecessor stored has been read. ready: so many servers have been looked at since the start that
	// losses can be counted.
	loaded, ready bool
}

func newGuard() guard {
	return guard{held: map[string]bool{}, lost: map[string]time.Time{}, stored: map[string]bool{}}
}

// losses returns the servers that are gone or missing though nobody here wanted it, and how many servers of ours there are
// with them. One that is gone counts for guardWindow.
func (c *serverCache) losses(now time.Time, mine func(*knownServer) bool) (lost []string, known int) {
	for id, k := range c.byID {
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

// tooMany reports whether so many losses among so many servers are more than max(3, 10 %).
func tooMany(lost, known int) bool { return lost > max(guardLeast, known/guardPart) }

// look takes the losses in: too many of them are held; those that came back are not held any longer. It reports whether there
// is something new to be stored.
func (g *guard) look(now time.Time, lost []string, known int, servers map[string]*knownServer) bool {
	before := g.state()
	known += g.count(now, lost, servers)
	if tooMany(len(g.lost), known) {
		for id := range g.lost {
			g.held[id] = true
		}
		g.known = known
	}
	for id := range g.held {
		if k := servers[id]; k != nil && !k.gone && !k.missing {
			delete(g.held, id)
		}
	}
	g.dirty = g.dirty || !before.equal(g.state())
	return g.dirty
}

// count keeps the losses of the window: it adds those that are new, and drops those that are over or were none. It returns
// how many of them are of servers that only a predecessor knew.
func (g *guard) count(now time.Time, lost []string, servers map[string]*knownServer) (unknown int) {
	current := make(map[string]bool, len(lost))
	for _, id := range lost {
		current[id] = true
		if _, counted := g.lost[id]; !counted {
			g.lost[id] = now
		}
	}
	for id, since := range g.lost {
		switch k := servers[id]; {
		case current[id]:
		case k != nil && (!k.gone || k.own || k.accepted), now.Sub(since) > guardWindow:
			delete(g.lost, id)
		case k == nil:
			unknown++
		}
	}
	return unknown
}

// state returns a copy of what is to be stored.
func (g *guard) state() Held {
	return Held{Servers: slices.Sorted(maps.Keys(g.held)), Lost: maps.Clone(g.lost)}
}

func (h Held) equal(other Held) bool {
	return slices.Equal(h.Servers, other.Servers) && maps.Equal(h.Lost, other.Lost)
}

// load begins with what a predecessor stored.
func (g *guard) load(h Held) {
	for _, id := range h.Servers {
		g.held[id] = true
	}
	for id, since := range h.Lost {
		g.lost[id], g.stored[id] = since, true
	}
	g.known = max(g.known, len(g.held))
	g.loaded = true
}

// lift accepts all held losses after an operator confirmed them.
func (g *guard) lift(servers map[string]*knownServer) {
	for id := range g.held {
		if k := servers[id]; k != nil {
			k.accepted = true
		}
	}
	g.held, g.lost, g.dirty = map[string]bool{}, map[string]time.Time{}, true
}

// reason is for people; empty when nothing is held.
func (g *guard) reason() string {
	if len(g.held) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d servers of this project are gone at once: nothing is cleaned up until they are back or an operator confirms it (annotation %s: \"yes\" on the ConfigMap of the cluster id)",
		len(g.held), max(g.known, len(g.held)), v1alpha1.AnnotationCollect)
}

// believes reports whether all of these servers count as gone. A loss that nobody here wanted counts once it was counted
// together with all others, and a successor would know of it. The caller holds the lock.
func (p *Project) believes(gone []*knownServer) bool {
	for _, k := range gone {
		_, lost := p.guard.lost[k.ID]
		switch {
		case k.own, k.accepted:
		case p.guard.held[k.ID], !p.guard.ready, lost && p.holds != nil && !p.guard.stored[k.ID]:
			return false
		}
	}
	return true
}

// watchLosses counts the losses. It reports whether there is something new to be stored; the caller holds the lock.
func (p *Project) watchLosses(now time.Time) bool {
	lost, known := p.servers.losses(now, p.isOurs)
	return p.guard.look(now, lost, known, p.servers.byID)
}

// loadHolds reads what a predecessor stored, once.
func (p *Project) loadHolds(ctx context.Context) error {
	p.mu.Lock()
	loaded := p.guard.loaded
	p.mu.Unlock()
	if loaded {
		return nil
	}
	var h Held
	if p.holds != nil {
		var err error
		if h, err = p.holds.Load(ctx, p.holdsKey()); err != nil {
			return fmt.Errorf("reading what the mass guard of %s holds: %w", p.site, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guard.load(h)
	return nil
}

// storeHolds writes down what the mass guard keeps when that has changed, and returns the servers whose loss may be believed
// from now on. A failed write is repeated with the next poll.
func (p *Project) storeHolds(ctx context.Context) (believed []string) {
	p.mu.Lock()
	h := p.guard.state()
	dirty := p.guard.dirty && p.guard.loaded
	p.mu.Unlock()
	if !dirty {
		return nil
	}
	if p.holds != nil {
		if err := p.holds.Store(ctx, p.holdsKey(), h); err != nil {
			log.FromContext(ctx).Info("Cannot store what the mass guard holds; new losses are not believed", "error", err.Error())
			p.Kick()
			return nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	stored := make(map[string]bool, len(h.Lost))
	for id := range h.Lost {
		if stored[id] = true; !p.guard.stored[id] && !p.guard.held[id] {
			believed = append(believed, id)
		}
	}
	p.guard.stored = stored
	p.guard.dirty = !h.equal(p.guard.state())
	return believed
}

// liftLosses asks for an operator's confirmation when something is held, and logs it. It reports whether it was given.
func (p *Project) liftLosses(ctx context.Context) bool {
	reason := p.held()
	if reason == "" {
		return false
	}
	lifted, err := false, error(nil)
	if p.lifted != nil {
		lifted, err = p.lifted(ctx)
	}
	if err != nil || !lifted {
		log.FromContext(ctx).Info("Nothing is cleaned up", "reason", reason)
		return false
	}
	p.mu.Lock()
	p.guard.lift(p.servers.byID)
	p.mu.Unlock()
	log.FromContext(ctx).Info("Accepting mass server deletion: confirmed by annotation", "reason", reason)
	return true
}

// held says what the mass guard holds; empty: nothing.
func (p *Project) held() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guard.reason()
}
