package nodegroup

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// written is an object that came from the API server itself, by a write of ours or a live read, and when. Until the watch
// has caught up with it, it stands over what the watch says (CA-C36).
type written struct {
	object client.Object
	at     time.Time
}

// settled gives the events without those of objects of which something newer is known. The caller holds mu.
func (g *Groups) settled(events []event) []event {
	kept := events[:0]
	for _, e := range events {
		owner := ownerOf(e.object)
		if owner == nil {
			kept = append(kept, e)
			continue
		}
		own, ok := g.own[owner.id]
		if ok && !e.gone && newer(own.object, e.object) {
			continue
		}
		// After a watch has begun anew, another object that has the name now takes the place of the earlier one in one event.
		if ok && (own.object.GetUID() == e.object.GetUID() || later(e.object, own.object)) {
			delete(g.own, owner.id)
		}
		kept = append(kept, e)
	}
	return kept
}

// newer tells whether a is a later version than b of the same object.
func newer(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && later(a, b)
}

// later tells whether a was written after b, be they of one object or of two that had the same name.
func later(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// adopt takes a version of an object that came from the API server itself, and publishes what follows from it. Those that
// were kept at the minimum are shown without their error until they fail again. What the watch has brought meanwhile holds:
// something later, or that the object is gone, after which no watch would take it away again.
func (g *Groups) adopt(object client.Object, kept ...*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := ownerOf(object)
	known := g.model.groups[o.id]
	if known == nil || later(known.owner, object) {
		return
	}
	if newer(object, known.owner) {
		g.own[o.id] = written{object, g.clock.Now()}
	}
	if len(kept) > 0 {
		seen := maps.Clone(g.model.seen)
		if seen == nil {
			seen = map[types.UID]time.Time{}
		}
		for _, m := range kept {
			seen[m.machine.UID] = g.model.lastFailure(known, m)
		}
		next := *g.model
		next.seen = seen
		g.model = &next
	}
	// What does not add up is told by the next Refresh, which comes to the same.
	_ = g.advance([]event{{object: object}}, false)
}

// lastFailure is when what is shown of a Machine went wrong.
func (s *Snapshot) lastFailure(g *group, m *member) time.Time {
	last := attempt(m.machine)
	if g == nil {
		return last
	}
	if _, when := s.shortage(g, m); when.After(last) {
		return when
	}
	return last
}

// forget drops what is remembered of a Machine that is gone. The caller holds mu.
func (g *Groups) forget(events []event) {
	for _, e := range events {
		m, ok := e.object.(*v1alpha1.Machine)
		if !ok || !e.gone {
			continue
		}
		if _, ok := g.model.seen[m.UID]; ok {
			next := *g.model
			next.seen = maps.Clone(next.seen)
			delete(next.seen, m.UID)
			g.model = &next
		}
	}
}
