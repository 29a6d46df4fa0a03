package nodegroup

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// listingAge is how long a list of groups stays valid without a Refresh.
const listingAge = time.Minute

// store holds the newest snapshot and the published view. It merges the events of the watches with newer versions of objects
// that this process has read or written itself.
type store struct {
	clock clock.PassiveClock
	// unsound counts the snapshots that were not published because an invariant was broken.
	unsound prometheus.Counter
	flaw    func(*model.Snapshot) error
	inbox   inbox
	view    atomic.Pointer[model.View]

	// mu guards the fields below and the making of views. It is not held during I/O.
	mu sync.Mutex
	// newest is the newest snapshot. view holds the newest snapshot without a broken invariant.
	newest *model.Snapshot
	// own holds, by group id, the versions of objects that this process has written or read itself and the watches have not delivered yet.
	own map[string]ownVersion
	// guarded holds, by id, the groups that may not grow for a while after the restart of an autoscaler.
	guarded map[string]*guard
}

// ownVersion is an object that this process has itself written to or read from the API server, and the time of the write or read.
// Until the watch has delivered that version or a later one, the store uses this version instead of the watch's (CA-C36).
type ownVersion struct {
	object client.Object
	at     time.Time
}

func newStore(rules model.Rules, c clock.PassiveClock, unsound prometheus.Counter) *store {
	s := &store{
		clock: c, unsound: unsound, flaw: (*model.Snapshot).Flaw, inbox: newInbox(),
		newest: model.Empty(rules), own: map[string]ownVersion{}, guarded: map[string]*guard{},
	}
	s.view.Store(model.NewView(s.newest, time.Time{}, nil))
	return s
}

// renew makes a snapshot with the events since the last one, and publishes it when no invariant is broken (CA-C115). If relist is
// true, it also renews the list of groups.
//
// Errors: Unavailable.
func (s *store) renew(relist bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.advance(s.withoutOlder(s.inbox.take()), relist)
}

// advance makes the next snapshot and publishes it. The caller holds mu.
func (s *store) advance(events []membership.Event, relist bool) error {
	now := s.clock.Now()
	s.newest = s.newest.Apply(events, now)
	if err := s.flaw(s.newest); err != nil {
		s.unsound.Inc()
		return model.Unavailablef(err, "the node groups are inconsistent (the last consistent answers stay in use)")
	}
	maps.DeleteFunc(s.guarded, func(id string, _ *guard) bool { return s.newest.Groups[id] == nil })
	if relist {
		s.view.Store(model.NewView(s.newest, now, s.guards(now)))
		return nil
	}
	s.view.Store(s.view.Load().Over(s.newest))
	return nil
}

// current returns the view that reads are answered from. After a minute without a Refresh it renews the list of groups itself,
// so that a replica that no autoscaler has called yet does not answer with an empty list.
func (s *store) current() *model.View {
	v := s.view.Load()
	if now := s.clock.Now(); now.Sub(v.Listed) >= listingAge {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v = s.view.Load(); now.Sub(v.Listed) >= listingAge {
			v = model.NewView(v.Snapshot, now, s.guards(now))
			s.view.Store(v)
		}
	}
	return v
}

// published returns the newest snapshot without a broken invariant.
func (s *store) published() *model.Snapshot { return s.view.Load().Snapshot }

// entry returns a listed group.
//
// Errors: InvalidArgument for an empty id; NotFound.
func (s *store) entry(id string) (*model.Entry, error) {
	if id == "" {
		return nil, model.Refusef(model.InvalidArgument, "the request names no node group")
	}
	e := s.current().ByID[id]
	if e == nil {
		return nil, model.Refusef(model.NotFound, "there is no node group %q", id)
	}
	return e, nil
}

// latest returns the newest snapshot, and the time at which the oldest version in own was written or read. own holds the versions
// that the watches have not delivered yet. The time is zero when own is empty.
func (s *store) latest() (*model.Snapshot, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest time.Time
	for _, v := range s.own {
		oldest = earlier(oldest, v.at)
	}
	return s.newest, oldest
}

// earlier returns the earlier of two times. A zero time counts as not set: then earlier returns the other time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// withoutOlder returns the events except those whose object is older than the version in own. The caller holds mu.
func (s *store) withoutOlder(events []membership.Event) []membership.Event {
	kept := events[:0]
	for _, e := range events {
		owner := membership.OwnerOf(e.Object)
		if owner == nil {
			kept = append(kept, e)
			continue
		}
		own, ok := s.own[owner.ID]
		if ok && !e.Gone && membership.Newer(own.object, e.Object) {
			continue
		}
		// An event with another UID may be newer, too: after a restart of the watch, one event may replace an object with a new
		// object of the same name.
		if ok && (own.object.GetUID() == e.Object.GetUID() || membership.Later(e.Object, own.object)) {
			delete(s.own, owner.ID)
		}
		kept = append(kept, e)
	}
	return kept
}

// conceal records that the autoscaler has asked to remove members of a group that stay because of the minimum size. Their errors are not
// shown to the autoscaler until they fail again.
func (s *store) conceal(g *model.Group, kept []*membership.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.newest.Groups[g.ID]
	if len(kept) == 0 || known == nil {
		return
	}
	s.newest = s.newest.WithSeen(g, kept)
	// Ignore the error: the next Refresh finds the same broken invariant and reports it.
	_ = s.advance([]membership.Event{{Object: known.Owner.Object}}, false)
}

// adopt stores objects that came from the API server itself and are newer than in the snapshot, and publishes the new snapshot. It returns
// the number of these objects, and the ids of the groups whose size they change. A later version from the watch replaces the stored one. A
// deletion event from the watch takes effect, too, because no later event would remove the object again. For the same reason only the
// watch adds an object, or replaces it by another one of the same name.
func (s *store) adopt(objects ...client.Object) (adopted int, resized map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []membership.Event
	before := map[string]int32{}
	for _, object := range objects {
		o := membership.OwnerOf(object)
		known := s.newest.Groups[o.ID]
		if known == nil || !membership.Newer(object, known.Owner) {
			continue
		}
		s.own[o.ID] = ownVersion{object, s.clock.Now()}
		events = append(events, membership.Event{Object: object})
		before[o.ID] = known.Target
	}
	if len(events) == 0 {
		return 0, nil
	}
	// Ignore the error: the next Refresh finds the same broken invariant and reports it.
	_ = s.advance(events, false)
	resized = map[string]bool{}
	for id, size := range before {
		if now := s.newest.Groups[id]; now != nil && now.Target != size {
			resized[id] = true
		}
	}
	return len(events), resized
}
