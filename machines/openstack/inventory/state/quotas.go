package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Amounts are quantities of what quotas limit. The constants below are its indexes.
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

// counted maps each service to the indexes of the amounts that its quotas limit.
var counted = map[client.Service][]int{
	client.Compute: {Instances, Cores, RAMMiB},
	client.Network: {Ports, FloatingIPs},
	client.Volume:  {Volumes, VolumeGiB},
}

// serviceOf returns the service whose quota is exhausted. It may not be the service that returned the error, because Nova passes on
// errors of Neutron and Cinder.
func serviceOf(code fault.Code) client.Service {
	return cmp.Or(map[fault.Code]client.Service{
		fault.CodePortQuotaExceeded: client.Network, fault.CodeFloatingIPQuotaExceeded: client.Network, fault.CodeVolumeQuotaExceeded: client.Volume,
	}[code], client.Compute)
}

const (
	// QuotaPeriod is the time between two reads of the limits of a service with an exhausted quota (CAPI-22).
	QuotaPeriod = 30 * time.Second
	// RetainedFor is how long ports and floating IPs of Machines without a server are retained for the next attempt to create the
	// server: two steps of the back-off (30 s and 60 s). It is longer than any call, so that no create can still be using them.
	RetainedFor = 90 * time.Second
)

// Quotas blocks creates in a project whose quota is exhausted, and reserves free quota for Machines.
type Quotas struct {
	watches map[client.Service]*watch
	// reserved is the quota that is reserved for Machines without a server, at the last attempt of each to create what it lacks.
	reserved map[types.UID]reservation
	// raised is when the limits last showed free quota again, after a quota was exhausted; zero when this has not happened.
	raised time.Time
}

// reservation is quota that is reserved for a Machine.
type reservation struct {
	Amounts
	at time.Time
}

// isOver reports whether the Machine has had enough time to use the reservation.
func (r reservation) isOver(now time.Time) bool { return now.Sub(r.at) > 2*QuotaPeriod }

// watch follows the quota of one service. It begins with a create that the cloud refuses, and ends when no create has been
// refused for the time QuotaPeriod.
type watch struct {
	refusal *fault.Error
	// since is when the cloud refused the first create after the limits last showed free quota. due is when drover must read the
	// limits next.
	since, due time.Time
	// room is the free quota that drover can still reserve, according to the limits. It is zero until the limits have been read.
	room  Amounts
	known bool
	// doubts is the number of creates that the cloud has refused since the limits were last read, although the limits showed free
	// quota.
	doubts int
	// probe is true when the limits cannot be read. Then drover may try one create.
	probe bool
	// blocked is true when a Machine was refused quota, by the cloud or by reserve, and no Machine may try again yet. least holds
	// the smallest amounts that were refused.
	blocked bool
	least   Amounts
}

func newQuotas() *Quotas {
	return &Quotas{watches: map[client.Service]*watch{}, reserved: map[types.UID]reservation{}}
}

// reserve reserves quota for all missing resources of a Machine, so that no port, volume or address is created for a server that
// cannot be created. If there is not enough, it returns the cloud's Quota error for the first refused Machine.
func (b *Quotas) reserve(machine types.UID, want Amounts, now time.Time) error {
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
		e.RetryAfter = max(w.due.Sub(now), 0) + FastPeriod
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
	return !slices.ContainsFunc(which, func(n int) bool { return want[n] > had[n] && want[n]-had[n] > w.room[n] })
}

// mayProbe reports whether the Machine may try a create although the limits cannot be read. Then no other Machine may.
func (w *watch) mayProbe(which []int, want Amounts) bool {
	probe := w.probe && slices.ContainsFunc(which, func(n int) bool { return want[n] > 0 })
	w.probe = w.probe && !probe
	return probe
}

func (w *watch) turnAway(which []int, want Amounts) {
	for _, n := range which {
		if !w.blocked || want[n] < w.least[n] {
			w.least[n] = want[n]
		}
	}
	w.blocked = true
}

// mostDoubts is how many refused creates drover ignores while the limits still show free quota: the cause may be special to one
// Machine. After more such creates, the limits that were read count as outdated.
const mostDoubts = 3

// refused records a Quota error of a create that needed the quota want. From now on there is no free quota until the limits
// show some.
func (b *Quotas) refused(machine types.UID, err *fault.Error, want Amounts, now time.Time) {
	s := serviceOf(err.Code)
	w, ok := b.watches[s]
	if !ok {
		w = &watch{due: now}
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

// Looked records the limits of a service that were just read: free is the quota that the service reports as free. With an error that
// passes, the limits stay due. When they cannot be read, one create per period may be tried. Looked reports whether a Machine to
// which reserve refused quota may try again.
func (b *Quotas) Looked(s client.Service, free Amounts, err error, now time.Time) bool {
	w, ok := b.watches[s]
	if !ok || fault.Is(err, fault.RateLimited) || fault.Is(err, fault.Transient) {
		return false
	}
	w.due = now.Add(QuotaPeriod)
	if err != nil {
		w.room, w.known, w.probe = Amounts{}, false, true
		return b.reopen(s, w, true, now)
	}
	w.room, w.known, w.doubts = free, true, 0
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

func (b *Quotas) reopen(s client.Service, w *watch, room bool, now time.Time) bool {
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

// Due returns the services whose limits must be read now. When no quota is exhausted, it also removes expired reservations,
// because Looked, which removes them otherwise, is not called then.
func (b *Quotas) Due(now time.Time) []client.Service {
	if len(b.watches) == 0 {
		maps.DeleteFunc(b.reserved, func(_ types.UID, r reservation) bool { return r.isOver(now) })
	}
	var services []client.Service
	for s, w := range b.watches {
		if !w.due.After(now) {
			services = append(services, s)
		}
	}
	return services
}

// nextLook returns the time until the limits of a service must be read next, but at most period.
func (b *Quotas) nextLook(now time.Time, period time.Duration) time.Duration {
	for _, w := range b.watches {
		left := w.due.Sub(now)
		if left <= 0 {
			left = FastPeriod
		}
		period = min(period, left)
	}
	return period
}

// exhausted reports whether a quota has been exhausted for so long that retained ports and floating IPs should be released.
func (b *Quotas) exhausted(now time.Time) bool {
	for _, w := range b.watches {
		if !w.since.IsZero() && now.Sub(w.since) >= RetainedFor {
			return true
		}
	}
	return false
}
