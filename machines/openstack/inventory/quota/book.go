package quota

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

const (
	// Period is the time between two looks at the limits of a service whose quota was hit (CAPI-22).
	Period = 30 * time.Second
	// RetainedFor is how long ports and floating IPs of Machines without a server are kept for the next try: two steps of the
	// back-off (30 s and 60 s). It is longer than any call, so that no create can still be using them.
	RetainedFor = 90 * time.Second
)

// Book keeps creates from a project whose quota is exhausted.
type Book struct {
	// soon is the time in which a look that is due is made.
	soon    time.Duration
	watches map[client.Service]*watch
	// reserved is the room that is set aside for Machines and that they have not used yet.
	reserved map[types.UID]reservation
	// raised is when there was last seen to be room again.
	raised time.Time
}

// reservation is room set aside for a Machine.
type reservation struct {
	Amounts
	at time.Time
}

// isOver reports whether the Machine has had the time to use the room.
func (r reservation) isOver(now time.Time) bool { return now.Sub(r.at) > 2*Period }

// watch follows one service's quota from the first refusal until no create has been refused for a period.
type watch struct {
	refusal *fault.Error
	// since is the first refusal after there was room; due the next look.
	since, due time.Time
	// room is what is left, as far as it is known; none before.
	room  Amounts
	known bool
	// doubts are refusals since the last look for which there was room by its account.
	doubts int
	// probe: the limits cannot be read; one create may try.
	probe bool
	// blocked: a Machine was turned away since the last look; least is the smallest want among them.
	blocked bool
	least   Amounts
}

// New returns a Book without watches. A look at the limits that is due is made within soon.
func New(soon time.Duration) *Book {
	return &Book{soon: soon, watches: map[client.Service]*watch{}, reserved: map[types.UID]reservation{}}
}

// Raised returns when there was last seen to be room again in a quota that had been hit; zero: never.
func (b *Book) Raised() time.Time { return b.raised }

// Watched returns how many services have a quota that was hit and is being watched.
func (b *Book) Watched() int { return len(b.watches) }

// HasReserved reports whether room is set aside for a Machine.
func (b *Book) HasReserved(machine types.UID) bool {
	_, ok := b.reserved[machine]
	return ok
}

// Reserve sets room aside for all that a Machine still needs, so that no port, volume or address is made for a server that
// may not be made. The error is the cloud's refusal of class Quota, as it was given to the first Machine.
func (b *Book) Reserve(machine types.UID, want Amounts, now time.Time) error {
	if len(b.watches) == 0 {
		return nil
	}
	had := b.reserved[machine]
	for s, w := range b.watches {
		if w.hasRoom(counted[s], want, had.Amounts) || w.mayProbe(counted[s], want) {
			continue
		}
		w.turnAway(counted[s], want)
		e := *w.refusal
		e.RetryAfter = max(w.due.Sub(now), 0) + b.soon
		return &e
	}
	for s, w := range b.watches {
		for _, n := range counted[s] {
			w.room[n] -= max(0, want[n]-had.Amounts[n])
		}
	}
	b.reserved[machine] = reservation{Amounts: want, at: now}
	return nil
}

func (w *watch) hasRoom(which []int, want, had Amounts) bool {
	for _, n := range which {
		if more := want[n] - had[n]; more > 0 && more > w.room[n] {
			return false
		}
	}
	return true
}

func (w *watch) mayProbe(which []int, want Amounts) bool {
	if !w.probe || !needs(which, want) {
		return false
	}
	w.probe = false
	return true
}

func needs(which []int, want Amounts) bool {
	for _, n := range which {
		if want[n] > 0 {
			return true
		}
	}
	return false
}

func (w *watch) turnAway(which []int, want Amounts) {
	for _, n := range which {
		if !w.blocked || want[n] < w.least[n] {
			w.least[n] = want[n]
		}
	}
	w.blocked = true
}

// Use notes that a part of what a Machine has reserved was made.
func (b *Book) Use(machine types.UID, part Amounts) {
	p, ok := b.reserved[machine]
	if !ok {
		return
	}
	left := false
	for n := range p.Amounts {
		p.Amounts[n] = max(0, p.Amounts[n]-part[n])
		left = left || p.Amounts[n] > 0
	}
	b.reserved[machine] = p
	if !left {
		delete(b.reserved, machine)
	}
}

// mostDoubts is how many refusals that the last look does not explain are taken for their Machines' own business, as that
// of a server group which is full. After more of them the look counts as outdated.
const mostDoubts = 3

// Failed records that a Machine's server went to ERROR because a quota was exceeded. Nova finds that out late for volumes.
func (b *Book) Failed(machine types.UID, err *fault.Error, now time.Time) {
	want := Amounts{}
	for _, n := range counted[ownerOf(err.Code)] {
		want[n] = 1
	}
	b.Refused(machine, err, want, now)
}

// Refused notes a refusal of class Quota of a create that wanted this much: from now on there is no room until a look has found
// some.
func (b *Book) Refused(machine types.UID, err *fault.Error, want Amounts, now time.Time) {
	s := ownerOf(err.Code)
	w, ok := b.watches[s]
	if !ok {
		w = &watch{since: now, due: now}
		b.watches[s] = w
	}
	if w.since.IsZero() {
		w.since = now
	}
	delete(b.reserved, machine)
	if w.known {
		if w.doubts++; w.doubts <= mostDoubts {
			return
		}
	}
	w.refusal, w.room, w.known, w.probe = err, Amounts{}, false, false
	w.turnAway(counted[s], want)
}

// Looked takes in what a look at the limits has found: free is what the project may still have by the cloud's account. It reports
// whether there is room again for a Machine that was turned away.
func (b *Book) Looked(s client.Service, free Amounts, now time.Time) bool {
	w, ok := b.watches[s]
	if !ok {
		return false
	}
	w.due, w.room, w.known, w.doubts = now.Add(Period), free, true, 0
	for machine, p := range b.reserved {
		if p.isOver(now) {
			delete(b.reserved, machine)
			continue
		}
		for _, n := range counted[s] {
			w.room[n] -= p.Amounts[n]
		}
	}
	return b.reopen(s, w, w.hasRoom(counted[s], w.least, Amounts{}), now)
}

// Unreadable notes that the limits cannot be read: then one create per period may find out. It reports whether a Machine that was
// turned away may try.
func (b *Book) Unreadable(s client.Service, now time.Time) bool {
	w, ok := b.watches[s]
	if !ok {
		return false
	}
	w.due, w.room, w.known, w.probe = now.Add(Period), Amounts{}, false, true
	return b.reopen(s, w, true, now)
}

func (b *Book) reopen(s client.Service, w *watch, room bool, now time.Time) bool {
	switch {
	case !room:
		return false
	case !w.blocked:
		delete(b.watches, s)
		return false
	}
	w.blocked, w.since, b.raised = false, time.Time{}, now
	return true
}

// Due returns the services whose limits are to be looked at now. While none is followed, it drops what has been reserved for too
// long, as Looked does otherwise.
func (b *Book) Due(now time.Time) []client.Service {
	if len(b.watches) == 0 {
		maps.DeleteFunc(b.reserved, func(_ types.UID, r reservation) bool { return r.isOver(now) })
	}
	services, _ := b.due(now)
	return services
}

// NextLook shortens the time until the next poll to that until the next look.
func (b *Book) NextLook(now time.Time, period time.Duration) time.Duration {
	services, next := b.due(now)
	switch {
	case len(services) > 0:
		return min(period, b.soon)
	case next.IsZero():
		return period
	}
	return min(period, next.Sub(now))
}

// due returns the services whose limits are to be looked at now, and the time of the next look; zero: none.
func (b *Book) due(now time.Time) (services []client.Service, next time.Time) {
	for s, w := range b.watches {
		if !w.due.After(now) {
			services = append(services, s)
		} else if next.IsZero() || w.due.Before(next) {
			next = w.due
		}
	}
	return services, next
}

// Exhausted reports whether a quota has been without room for so long that retained ports and floating IPs should go.
func (b *Book) Exhausted(now time.Time) bool {
	for _, w := range b.watches {
		if !w.since.IsZero() && now.Sub(w.since) >= RetainedFor {
			return true
		}
	}
	return false
}
