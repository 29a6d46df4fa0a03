package state

import (
	"math"
	"time"
)

// Statistics are numbers of a project, for metrics.
type Statistics struct {
	// Listed is false before the first successful list of servers. Age is the time since the start of the last successful list.
	Listed bool
	Age    time.Duration
	// Servers is the number of known servers of this cluster; Stuck is the number of those that still exist 10 minutes after their
	// deletion was first requested; Held is the number of Machines that have lost their servers, while these are
	// too many to be believed.
	Servers, Stuck, Held int
	// Quotas is the number of services that drover watches because one of their quotas is exhausted.
	Quotas int
}

// Statistics returns the current numbers.
func (p *Project) Statistics(now time.Time) Statistics {
	s := Statistics{
		Listed: !p.lastList.IsZero(), Age: now.Sub(p.lastList), Quotas: p.Quotas.watched(),
	}
	if lost := p.losses(math.MaxInt); lost.areTooMany() {
		s.Held = int(lost)
	}
	for k := range p.Servers.all() {
		if k.gone || !p.isOurs(k) {
			continue
		}
		s.Servers++
		if k.isStuck(now) {
			s.Stuck++
		}
	}
	return s
}
