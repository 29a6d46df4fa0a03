package inventory

import "time"

// stuckAfter is how long a deletion may take before it counts as stuck (CAPI-44).
const stuckAfter = 10 * time.Minute

// Statistics are numbers about a project, for metrics.
type Statistics struct {
	// Listed is false before the first list of servers succeeded; Age is the time since the last such list was begun.
	Listed bool
	Age    time.Duration
	// Servers is how many servers of this cluster are known; Stuck how many of them still exist 10 minutes after their deletion
	// was first requested; Held how many lost servers the mass guard holds.
	Servers, Stuck, Held int
	// Quotas is how many services have a quota that was hit and is being watched.
	Quotas int
}

// Statistics returns the numbers of this moment.
func (p *Project) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	s := Statistics{
		Listed: !p.lastList.IsZero(), Age: now.Sub(p.lastList), Held: len(p.guard.held), Quotas: len(p.quota.watches),
	}
	for _, k := range p.servers.byID {
		if k.gone || !p.isOurs(k) {
			continue
		}
		s.Servers++
		if !k.firstAsked.IsZero() && now.Sub(k.firstAsked) > stuckAfter {
			s.Stuck++
		}
	}
	return s
}
