package inventory

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
	"github.com/drover-project/drover/machines/openstack/inventory/known"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// Run lists until ctx ends.
func (p *Project) Run(ctx context.Context) {
	for ctx.Err() == nil {
		p.wait(ctx, p.poll(ctx))
	}
}

// wait sleeps for that long, or until servers.FastPeriod after the first kick, or servers.BuildPeriod after the first create.
func (p *Project) wait(ctx context.Context, period time.Duration) {
	due := p.clock.Now().Add(period)
	sooner := func(period time.Duration) {
		if soon := p.clock.Now().Add(period); soon.Before(due) {
			due = soon
		}
	}
	for {
		left := due.Sub(p.clock.Now())
		if left <= 0 {
			return
		}
		timer := p.clock.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			return
		case <-p.kicks:
			timer.Stop()
			sooner(servers.FastPeriod)
		case <-p.creates:
			timer.Stop()
			sooner(servers.BuildPeriod)
		}
	}
}

// poll makes one round of lists, and returns the time until the next.
func (p *Project) poll(ctx context.Context) time.Duration {
	p.mu.Lock()
	s, round := p.session, p.known.Round(p.clock.Now())
	p.mu.Unlock()

	answers, err := p.ask(ctx, s, round)
	if err != nil {
		return p.failed(ctx, s, err)
	}
	raised := p.lookAtQuotas(ctx, s)
	next, news := p.apply(ctx, answers)
	began := p.firstLook(ctx, s)
	accepted := p.acceptLosses(ctx)
	news.Servers = append(news.Servers, p.storeHolds(ctx)...)
	news.All = news.All || raised || accepted || began
	p.changed(ctx, p, news)
	p.tagServers(ctx, s)
	p.lookAtUnjoined(ctx, s)
	p.removeDuplicates(ctx, s)
	p.releaseRetained(ctx, s)
	return next
}

// ask makes the lists of a round. Ports and floating IPs that were listed before may fail to be listed again: what is known stays.
func (p *Project) ask(ctx context.Context, s *client.Session, round known.Round) (known.Answers, error) {
	a := known.Answers{Round: round}
	if round.Addresses {
		switch err := p.listAddresses(ctx, s, round.Started); {
		case err != nil && round.First:
			return a, err
		case err != nil:
			log.FromContext(ctx).Info("ports and floating IPs cannot be listed; what is known stays", "error", err.Error())
		}
	}
	a.Looked = round.SecondLook && p.takeSecondLook(ctx, s, round.Ports)
	var err error
	a.Rows, a.Date, err = calls.ListServers(ctx, s, round.Since, round.Full)
	return a, err
}

// listAddresses lists all ports and floating IPs of the project.
func (p *Project) listAddresses(ctx context.Context, s *client.Session, started time.Time) error {
	l, err := calls.ListAddresses(ctx, s)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.ApplyAddresses(l, started, p.clock.Now())
	return nil
}

// takeSecondLook reads again which servers these ports are bound to, which does not lag as a list of servers may. It reports whether
// all ports have been read.
func (p *Project) takeSecondLook(ctx context.Context, s *client.Session, ids []string) bool {
	rows, err := calls.ListPorts(ctx, s, ids)
	if err != nil {
		log.FromContext(ctx).Info("ports without a server cannot be looked at yet", "ports", len(ids), "error", err.Error())
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetPorts(rows, p.clock.Now())
	return true
}

// apply applies the lists to what is known. It returns the time until the next round and what is new.
func (p *Project) apply(ctx context.Context, a known.Answers) (time.Duration, Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.Now = p.clock.Now()
	next, news, resumed := p.known.Apply(a)
	if resumed {
		log.FromContext(ctx).Info("following the servers of a project", "servers", len(a.Rows))
	}
	return next, news
}

// failed records that lists failed, and returns the time until the next try. Credentials that are refused are replaced by others.
// When lists have failed for long, the Machines are reconciled, so that they show it.
func (p *Project) failed(ctx context.Context, s *client.Session, err error) time.Duration {
	if other := p.other(p, s); other != nil && fault.Is(err, fault.Auth) {
		p.Use(other)
	}
	p.mu.Lock()
	f := p.known.Failed(err, p.clock.Now())
	p.mu.Unlock()
	if f.First {
		log.FromContext(ctx).Info("the servers of a project cannot be listed; what is known stays", "error", err.Error())
	}
	if f.Outdated {
		p.changed(ctx, p, Change{All: true})
	}
	return f.Next
}
