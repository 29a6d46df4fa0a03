package known

import "time"

// Statistics are numbers about a project, for metrics.
type Statistics struct {
	// Listed is false before the first list of servers succeeded; Age is the time since the last such list was begun.
	Listed bool
	Age    time.Duration
	// Servers is how many servers of this cluster are known; Stuck how many of them still exist 10 minutes after their deletion
	// was first requested; Held how many lost servers the mass-deletion guard holds.
	Servers, Stuck, Held int
	// Quotas is how many services have a quota that was hit and is being watched.
	Quotas int
}

// Statistics returns the numbers of this moment.
func (p *Project) Statistics(now time.Time) Statistics {
	s := Statistics{
		Listed: !p.lastList.IsZero(), Age: now.Sub(p.lastList), Held: p.Guard.Held(), Quotas: p.Quota.Watched(),
	}
	for k := range p.Servers.All() {
		if k.Gone || !p.isOurs(k) {
			continue
		}
		s.Servers++
		if k.IsStuck(now) {
			s.Stuck++
		}
	}
	return s
}
