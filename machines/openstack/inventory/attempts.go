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
	// suspected: whoever was here before may have made it, and told nobody. A second look settles it (suspect.go).
	suspected bool
}

// How a create with an unknown outcome is settled: not before SettleTime has passed and settleLists complete lists have
// not shown the thing.
const (
	SettleTime  = 2 * time.Minute
	settleLists = 2
)

// settled tells whether the thing may be made again.
func (a attempt) settled(now time.Time, fulls int) bool {
	return !a.suspected && now.Sub(a.ended) >= SettleTime && fulls-a.fulls >= settleLists
}

// attempted notes a create that failed, when it may have worked all the same. The ports that a server was ordered on are not
// used for another one.
func (p *Project) Attempted(m OwnerTag, err error) {
	if !client.UnknownOutcome(err) {
		return
	}
	p.mu.Lock()
	p.attempts[m] = attempt{ended: p.clock.Now(), fulls: p.fulls}
	for n, port := range p.ports[m.Machine] {
		port.Ordered = port.Ordered || m.Kind == ServerKind
		p.ports[m.Machine][n] = port
	}
	p.mu.Unlock()
	p.Kick()
}

// hasOpenAttempts tells whether a create of the Machine is not settled.
func (p *Project) HasOpenAttempts(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasAttempt(machine)
}

// mayMake tells whether a thing may be made: nil when no earlier create of it is open, and no server has its port.
func (p *Project) MayMake(m OwnerTag) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.attempts[m]
	if !ok {
		return p.portsFree(m)
	}
	now := p.clock.Now()
	if a.settled(now, p.fulls) {
		delete(p.attempts, m)
		return p.portsFree(m)
	}
	words := "whether the call at %s made the %s is not known yet; it is looked for"
	if a.suspected {
		words = "drover began at %s and found a port of it: the %s may be on its way; it is looked for"
	}
	return unsettled(words, a.ended.UTC().Format("15:04:05"), m.Kind)
}

// portsFree refuses to make a server on ports that another one has, which is to be looked up first; the caller holds the
// lock.
func (p *Project) portsFree(m OwnerTag) error {
	bound := p.boundServer(m.Machine)
	if m.Kind != ServerKind || bound == "" {
		return nil
	}
	return unsettled("server %s has the port already; it is looked up", bound)
}

// open tells whether an earlier create of it is not settled.
func (p *Project) IsOpen(m OwnerTag) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.attempts[m]
	return ok
}

// openAttempts gives the Machine's creates that are not settled.
func (p *Project) OpenAttempts(machine types.UID) []OwnerTag {
	p.mu.Lock()
	defer p.mu.Unlock()
	var marks []OwnerTag
	for m := range p.attempts {
		if m.Machine == machine {
			marks = append(marks, m)
		}
	}
	return marks
}

// unsettled returns the error for something that the lists to come will settle.
func unsettled(format string, args ...any) error {
	e := fault.New(fault.Transient, fault.CodeUnsettled, format, args...)
	e.RetryAfter = FastPeriod
	return e
}

// hasAttempt reports whether a create of the Machine is not settled; the caller holds the lock.
func (p *Project) hasAttempt(machine types.UID) bool {
	for m := range p.attempts {
		if m.Machine == machine {
			return true
		}
	}
	return false
}

// settleServers drops the attempts whose server has shown up; the caller holds the lock.
func (p *Project) settleServers() {
	for m := range p.attempts {
		if living, gone := p.servers.ofMachine(m.Machine); m.Kind == ServerKind && len(living)+len(gone) > 0 {
			delete(p.attempts, m)
		}
	}
}
