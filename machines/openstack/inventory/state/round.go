package state

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// AddressPeriod is the time between two lists of ports and floating IPs. The collector of orphans needs these lists.
const AddressPeriod = 15 * time.Minute

// addressRetry is the time until ports and floating IPs are listed again after they could not be listed.
const addressRetry = 5 * time.Minute

// Round describes which lists drover requests in one round.
type Round struct {
	Started time.Time
	// Full is true when the round lists all servers. Otherwise it lists only the servers that changed since Since, on the cloud's
	// clock.
	Full  bool
	Since time.Time
	// Addresses is true when the round lists ports and floating IPs; First is true when they have never been listed.
	Addresses, First bool
	// SecondLook is true when the second look at inherited creates, which the previous leader may have sent, is due. Ports are the
	// IDs of the ports to look up then, because inherited creates of servers may name these ports.
	SecondLook bool
	Ports      []string
}

// Round returns what is due in the next round of lists.
func (p *Project) Round(now time.Time) Round {
	r := Round{
		Started: now, Since: p.stamp, Full: p.stamp.IsZero() || isFullDue(now, p.lastFull, len(p.creates) > 0),
		First: p.listedAddresses.IsZero(),
	}
	r.Addresses = r.First || now.Sub(p.listedAddresses) >= AddressPeriod
	inherited := p.creates.inherited()
	r.SecondLook = len(inherited) > 0 && now.Sub(p.began) >= SecondLookAfter
	for _, machine := range inherited {
		r.Ports = append(r.Ports, p.Addresses.portIDs(machine)...)
	}
	slices.Sort(r.Ports)
	return r
}

// Answers are the results of a round of lists.
type Answers struct {
	Round
	Rows []ServerRow
	// Date is the cloud's time at the start of the list of servers; zero when it is not known. Now is when the last page of the
	// list arrived.
	Date, Now time.Time
	// Ahead is how far the cloud's clock is ahead of drover's, with an error of as much as the first page of the list took; 0 when the
	// cloud has not shown its clock.
	Ahead time.Duration
	// Looked is true when this round completed the second look at inherited creates, which the previous leader may have sent.
	Looked bool
}

// Change describes what has changed in a project.
type Change struct {
	// All is true when every Machine of the project must be reconciled, as after the first list.
	All bool
	// Machines are the UIDs of the Machines whose own server changed. Servers are the IDs of all servers that changed: they also
	// concern a Machine whose provider ID names a server that is not its own.
	Machines []types.UID
	Servers  []string
}

// Apply updates the known servers from a list. It returns the time until the next round, and what has changed: everything when this is
// the first list, or when the list before this one failed.
func (p *Project) Apply(a Answers) (next time.Duration, news Change) {
	before := p.isSynced()
	resumed := !before || p.failure != nil
	if p.outdated {
		p.current = a.Now
	}
	p.failures, p.failure, p.outdated, p.lastList = 0, nil, false, a.Started
	if !a.Date.IsZero() {
		p.stamp = a.Date
	}
	p.ahead = a.Ahead.Round(clockError)
	ids := p.Servers.apply(a)
	if a.Full {
		p.lastFull = a.Started
		p.fulls++
	}
	if !before {
		p.inheritCreates()
	}
	maps.DeleteFunc(p.creates, func(tag Tag, c create) bool {
		return tag.Kind == cloud.ResourceServer && p.Servers.hasSince(tag.Machine, c.ended) || a.Full && c.settled(a.Now, p.fulls) && !p.Servers.isRegistered(tag.Machine)
	})
	p.readFaults(ids, a.Now)
	news = Change{Servers: ids, All: resumed}
	for _, id := range ids {
		if k := p.Servers.byID[id]; k != nil && k.machine() != "" {
			news.Machines = append(news.Machines, k.machine())
		}
	}
	if a.Looked {
		news.Machines = append(news.Machines, p.creates.inherited()...)
		maps.DeleteFunc(p.creates, func(_ Tag, c create) bool { return c.inherited })
	}
	return p.untilNext(a.Now), news
}

// untilNext returns the time until the next round of lists is due.
func (p *Project) untilNext(now time.Time) time.Duration {
	next := p.Quotas.nextLook(now, p.Servers.period(now, len(p.creates) > 0))
	if left := p.began.Add(SecondLookAfter).Sub(now); left > 0 && len(p.creates.inherited()) > 0 {
		return min(next, left)
	}
	return next
}

// OutdatedAfter is how long lists must have failed before the status of the Machines shows the failure.
const OutdatedAfter = 2 * time.Minute

// Failure describes the consequences of failed lists.
type Failure struct {
	// Next is the time until the next try. It grows with each failure.
	Next time.Duration
	// First is true for the first of several consecutive failures. Outdated is true when lists have now failed for OutdatedAfter,
	// so that the Machines' status shows the failure from now on.
	First, Outdated bool
}

// Failed records that lists failed. It keeps the known resources.
func (p *Project) Failed(err error, now time.Time) Failure {
	f := Failure{First: p.failures == 0}
	if f.First {
		p.failingSince = now
	}
	p.failures++
	p.failure = err
	f.Outdated = !p.outdated && now.Sub(p.failingSince) >= OutdatedAfter
	p.outdated = p.outdated || f.Outdated
	f.Next = max(min(FastPeriod<<(min(p.failures, 6)-1), RestPeriod), fault.Of(err).RetryAfter)
	return f
}

// ApplyAddresses stores the ports and floating IPs with an owner tag of this cluster. It is called at the start, so that drover
// finds existing ports and floating IPs after a restart without a call per Machine. Later it is called for the collector of
// orphans. A known port of a registered Machine becomes doubtful when the list lacks it: drover looks it up before it uses it
// again.
func (p *Project) ApplyAddresses(l AddressLists, started, now time.Time) {
	p.Addresses.doubtUnlisted(l, started.Add(-SettleTime), p.Servers.isRegistered)
	p.listedAddresses = started
	p.SetPorts(l.Ports, now)
	for _, ip := range l.FloatingIPs {
		if tag, ok := p.cluster.Read(cloud.ResourceFloatingIP, ip.Description); ok {
			p.SetFloatingIP(tag, ip, now)
		}
	}
	p.Addresses.see(l, p.cluster)
}

// AddressesFailed records that ports and floating IPs, which were listed before, could not be listed again.
func (p *Project) AddressesFailed(now time.Time) {
	p.listedAddresses = now.Add(addressRetry - AddressPeriod)
}

// inheritCreates is called after the first lists. It records a create in doubt for every Machine with a port and without a server:
// the previous leader may have sent the create of a server that the list does not show yet. It records nothing when the list of
// ports was requested at least SecondLookAfter after drover's start. The list of servers was requested even later, so it would
// show such a server.
func (p *Project) inheritCreates() {
	if p.listedAddresses.Sub(p.began) >= SecondLookAfter {
		return
	}
	for machine := range p.Addresses.ports {
		if m, known := p.machines.Get(machine); p.Servers.hasSince(machine, p.began) || known && m.ServerID != "" {
			continue
		}
		if tag := p.serverTag(machine); !slices.Contains(p.creates.of(machine), tag) {
			p.creates[tag] = create{ended: p.began, inherited: true}
		}
	}
}
