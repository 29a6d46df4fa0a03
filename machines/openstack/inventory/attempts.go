package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// attempt is a create whose outcome is not known.
type attempt struct {
	// ended is when the call ended; fulls how many complete lists there had been by then.
	ended time.Time
	fulls int
	// suspected: the previous leader may have sent the create and died before the answer. A second look settles it.
	suspected bool
}

// A create with an unknown outcome made nothing when SettleTime has passed and settleLists complete lists have not shown what it
// was to make.
const (
	SettleTime  = 2 * time.Minute
	settleLists = 2
)

// settled reports whether the create made nothing, so that it may be repeated. fulls is how many complete lists there have been.
func (a attempt) settled(now time.Time, fulls int) bool {
	return !a.suspected && now.Sub(a.ended) >= SettleTime && fulls-a.fulls >= settleLists
}

// Attempted notes that a create failed. When err leaves open whether it worked, the create stays open until a list shows what it
// made or it is settled, and the ports that a server was ordered on are not used for another one.
func (p *Project) Attempted(tag OwnerTag, err error) {
	if !client.UnknownOutcome(err) {
		return
	}
	p.mu.Lock()
	p.attempts[tag] = attempt{ended: p.clock.Now(), fulls: p.fulls}
	for n, port := range p.ports[tag.Machine] {
		port.Ordered = port.Ordered || tag.Kind == ServerKind
		p.ports[tag.Machine][n] = port
	}
	p.mu.Unlock()
	p.Kick()
}

// MayMake returns nil when what has that tag may be made: no earlier create of it is open, and no other server has the port that a
// server would get. Otherwise the error is Transient. A create that is settled by now is not open any more.
func (p *Project) MayMake(tag OwnerTag) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.attempts[tag]
	if !ok {
		return p.portsFree(tag)
	}
	now := p.clock.Now()
	if a.settled(now, p.fulls) {
		delete(p.attempts, tag)
		return p.portsFree(tag)
	}
	words := "whether the call at %s made the %s is not known yet; it is looked for"
	if a.suspected {
		words = "drover began at %s and found a port of it: the %s may be on its way; it is looked for"
	}
	return unsettled(words, a.ended.UTC().Format("15:04:05"), tag.Kind)
}

// portsFree returns an error when another server has a port on which a server is to be made. That server must be looked up first.
// The caller holds the lock.
func (p *Project) portsFree(tag OwnerTag) error {
	bound := p.boundServer(tag.Machine)
	if tag.Kind != ServerKind || bound == "" {
		return nil
	}
	return unsettled("server %s has the port already; it is looked up", bound)
}

// HasAttempt reports whether an earlier create of what has that tag is open.
func (p *Project) HasAttempt(tag OwnerTag) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.attempts[tag]
	return ok
}

// OpenAttempts returns the tags of what open creates of the Machine may have made.
func (p *Project) OpenAttempts(machine types.UID) []OwnerTag {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []OwnerTag
	for tag := range p.attempts {
		if tag.Machine == machine {
			open = append(open, tag)
		}
	}
	return open
}

// unsettled returns a Transient error about something that the next lists will settle.
func unsettled(format string, args ...any) error {
	e := fault.New(fault.Transient, fault.CodeUnsettled, format, args...)
	e.RetryAfter = FastPeriod
	return e
}

// hasAttempts reports whether a create of the Machine is open. The caller holds the lock.
func (p *Project) hasAttempts(machine types.UID) bool {
	for tag := range p.attempts {
		if tag.Machine == machine {
			return true
		}
	}
	return false
}

// settleServers closes the creates whose server a list has shown. The caller holds the lock.
func (p *Project) settleServers() {
	for m := range p.attempts {
		if living, gone := p.servers.ofMachine(m.Machine); m.Kind == ServerKind && len(living)+len(gone) > 0 {
			delete(p.attempts, m)
		}
	}
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or a create for it is open.
func (p *Project) HasAddresses(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasAddresses(machine)
}

func (p *Project) hasAddresses(machine types.UID) bool {
	_, hasIP := p.floating[machine]
	return hasIP || len(p.ports[machine]) > 0 || p.hasAttempts(machine)
}

// HasNothingOf reports whether all lists have been seen since the start and nothing of the Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, _ := p.servers.ofMachine(machine)
	return p.synced() && len(living) == 0 && !p.hasAddresses(machine)
}
