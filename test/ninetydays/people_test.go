package ninetydays

import (
	"time"

	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// people simulates the operators of the cluster, and the election of leaders.
type people struct {
	*world
	repair    *repair
	collector *collector
}

// changeLeader ends the current leader. Another process becomes the leader immediately or some minutes later.
func (p *people) changeLeader() {
	if !p.repair.leads {
		return
	}
	p.counts.leaders++
	p.repair.leads, p.collector.leads = false, false
	p.takeOver(p.now)
}

// takeOver starts a new leader after a random time, but not while the API server is down. renewed is when the previous
// leader last renewed the lease.
func (p *people) takeOver(renewed time.Time) {
	wait := p.between(time.Second, 20*time.Second)
	if p.oneIn(4) {
		wait = p.between(time.Minute, 20*time.Minute)
	}
	p.in(wait, func() {
		p.whenAnswering(func() {
			p.repair.lead()
			p.collector.lead(orphans.Span{From: renewed, To: p.now})
		})
	})
}

// operator simulates an operator who looks at the orphans once a day. The operator confirms the deletion of orphans for
// an hour if an orphan has existed for half a day and the cloud shows no resource of another cluster with the same ID.
func (p *people) operator() {
	p.in(day, p.operator)
	if p.clones() {
		return
	}
	for _, left := range p.strays {
		if p.now.Sub(left.since) > 12*time.Hour {
			p.collector.confirmed = true
		}
	}
	p.in(time.Hour, func() { p.collector.confirmed = false })
}
