package ninetydays

import (
	"time"

	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// people are those who look after the cluster, and what else is not in the hands of the verdicts: who leads.
type people struct {
	*world
	repair    *repair
	collector *collector
}

// changeLeader has another process lead, at once or some minutes later.
func (p *people) changeLeader() {
	if !p.repair.leads {
		return
	}
	p.counts.leaders++
	p.repair.leads, p.collector.leads = false, false
	p.takeOver(p.now)
}

// takeOver begins to lead when the lease, which was renewed last at that time, has ended and the API server answers.
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

// operator looks at what is reported once a day. When something without a Machine has waited for half a day, and none of it is another
// cluster's, the operator confirms for an hour that it may be deleted.
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
