package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

const (
	// QuotaPeriod is the time between two looks at the limits of a service whose quota was hit (CAPI-22).
	QuotaPeriod = 30 * time.Second
	// RetainedFor is how long ports and floating IPs of Machines without a server are kept for the next try: two steps of the
	// back-off (30 s and 60 s). It is longer than any call, so that no create can still be using them.
	RetainedFor = 90 * time.Second
	// plenty stands for no limit.
	plenty = 1 << 40
)

// Amounts are numbers of what quotas count, each under its index below.
type Amounts [7]int

// The indexes of Amounts.
const (
	Instances = iota
	Cores
	RAMMiB
	Ports
	FloatingIPs
	Volumes
	VolumeGiB
)

// counted are the indexes of what each service counts.
var counted = map[client.Service][]int{
	client.Compute: {Instances, Cores, RAMMiB},
	client.Network: {Ports, FloatingIPs},
	client.Volume:  {Volumes, VolumeGiB},
}

// quotaOwner returns the service whose quota a refusal is about: Nova passes on refusals of Neutron and Cinder.
func quotaOwner(code fault.Code) client.Service {
	switch code {
	case fault.CodePortQuotaExceeded, fault.CodeFloatingIPQuotaExceeded:
		return client.Network
	case fault.CodeVolumeQuotaExceeded:
		return client.Volume
	}
	return client.Compute
}

// quotaBook keeps creates from a project whose quota is exhausted. It has no lock and no clock.
type quotaBook struct {
	watches map[client.Service]*quotaWatch
	// taken is the room that Machines have been promised and not used yet.
	taken map[types.UID]promise
	// raised is when there was last seen to be room again.
	raised time.Time
}

// promise is room set aside for a Machine.
type promise struct {
	Amounts
	at time.Time
}

// quotaWatch follows one service's quota from the first refusal until no create has been refused for a period.
type quotaWatch struct {
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

func newQuotaBook() *quotaBook {
	return &quotaBook{watches: map[client.Service]*quotaWatch{}, taken: map[types.UID]promise{}}
}

// take promises a Machine room for all that it still needs, so that no port, volume or address is made for a server that
// may not be made. The error is the cloud's refusal, as it was given to the first.
func (b *quotaBook) take(machine types.UID, want Amounts, now time.Time) error {
	if len(b.watches) == 0 {
		return nil
	}
	had := b.taken[machine]
	for s, w := range b.watches {
		if w.hasRoom(counted[s], want, had.Amounts) || w.mayProbe(counted[s], want) {
			continue
		}
		w.turnAway(counted[s], want)
		e := *w.refusal
		e.RetryAfter = max(w.due.Sub(now), 0) + FastPeriod
		return &e
	}
	for s, w := range b.watches {
		for _, n := range counted[s] {
			w.room[n] -= max(0, want[n]-had.Amounts[n])
		}
	}
	b.taken[machine] = promise{Amounts: want, at: now}
	return nil
}

func (w *quotaWatch) hasRoom(which []int, want, had Amounts) bool {
	for _, n := range which {
		if more := want[n] - had[n]; more > 0 && more > w.room[n] {
			return false
		}
	}
	return true
}

func (w *quotaWatch) mayProbe(which []int, want Amounts) bool {
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

func (w *quotaWatch) turnAway(which []int, want Amounts) {
	for _, n := range which {
		if !w.blocked || want[n] < w.least[n] {
			w.least[n] = want[n]
		}
	}
	w.blocked = true
}

// made uses up a part of what a Machine was promised.
func (b *quotaBook) made(machine types.UID, part Amounts) {
	p, ok := b.taken[machine]
	if !ok {
		return
	}
	left := false
	for n := range p.Amounts {
		p.Amounts[n] = max(0, p.Amounts[n]-part[n])
		left = left || p.Amounts[n] > 0
	}
	b.taken[machine] = p
	if !left {
		delete(b.taken, machine)
	}
}

// mostDoubts is how many refusals that the last look does not explain are taken for their Machines' own business, as that
// of a server group which is full. After more of them the look counts as outdated.
const mostDoubts = 3

// refused takes in a refusal of class Quota: from now on there is no room until a look has found some.
func (b *quotaBook) refused(machine types.UID, err *fault.Error, want Amounts, now time.Time) {
	s := quotaOwner(err.Code)
	w, ok := b.watches[s]
	if !ok {
		w = &quotaWatch{since: now, due: now}
		b.watches[s] = w
	}
	if w.since.IsZero() {
		w.since = now
	}
	delete(b.taken, machine)
	if w.known {
		if w.doubts++; w.doubts <= mostDoubts {
			return
		}
	}
	w.refusal, w.room, w.known, w.probe = err, Amounts{}, false, false
	w.turnAway(counted[s], want)
}

// looked takes in what a look at the limits has found: free is what the project may still have by the cloud's account.
// True when there is room again for a Machine that was turned away.
func (b *quotaBook) looked(s client.Service, free Amounts, now time.Time) bool {
	w, ok := b.watches[s]
	if !ok {
		return false
	}
	w.due, w.room, w.known, w.doubts = now.Add(QuotaPeriod), free, true, 0
	for machine, p := range b.taken {
		if now.Sub(p.at) > 2*QuotaPeriod {
			delete(b.taken, machine)
			continue
		}
		for _, n := range counted[s] {
			w.room[n] -= p.Amounts[n]
		}
	}
	return b.reopen(s, w, w.hasRoom(counted[s], w.least, Amounts{}), now)
}

// unreadable says that the limits cannot be read: then one create per period may find out.
func (b *quotaBook) unreadable(s client.Service, now time.Time) bool {
	w, ok := b.watches[s]
	if !ok {
		return false
	}
	w.due, w.room, w.known, w.probe = now.Add(QuotaPeriod), Amounts{}, false, true
	return b.reopen(s, w, true, now)
}

func (b *quotaBook) reopen(s client.Service, w *quotaWatch, room bool, now time.Time) bool {
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

// due returns the services whose limits are to be looked at now, and the time of the next look; zero: none.
func (b *quotaBook) due(now time.Time) (services []client.Service, next time.Time) {
	for s, w := range b.watches {
		if !w.due.After(now) {
			services = append(services, s)
		} else if next.IsZero() || w.due.Before(next) {
			next = w.due
		}
	}
	return services, next
}

// exhausted reports whether a quota has been without room for so long that retained ports and floating IPs should go.
func (b *quotaBook) exhausted(now time.Time) bool {
	for _, w := range b.watches {
		if !w.since.IsZero() && now.Sub(w.since) >= RetainedFor {
			return true
		}
	}
	return false
}
