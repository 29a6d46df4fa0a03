package ninetydays

import (
	"slices"
	"strings"
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
	p.repair.leads, p.collector.leads, p.leading = false, false, false
	p.takeOver()
}

// takeOver starts a new leader after a random time, but not while the API server is down.
func (p *people) takeOver() {
	wait := p.between(time.Second, 20*time.Second)
	if p.oneIn(4) {
		wait = p.between(time.Minute, 20*time.Minute)
	}
	p.in(wait, func() {
		p.whenAnswering(func() {
			p.repair.lead()
			p.collector.lead()
		})
	})
}

// operator simulates an operator who looks at the orphans once a day, and confirms by their IDs those that have existed for half a day.
func (p *people) operator() {
	p.in(day, p.operator)
	for key, left := range p.strays {
		if p.now.Sub(left.since) > 12*time.Hour {
			p.collector.words = append(p.collector.words, strings.TrimPrefix(key, orphans.KindNode+" "))
		}
	}
	slices.Sort(p.collector.words)
}
