package inventory

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Run lists the project's resources until ctx ends.
func (p *Project) Run(ctx context.Context) {
	for ctx.Err() == nil {
		p.wait(ctx, p.poll(ctx))
	}
}

// wait waits for the given period. It ends earlier when Kick is called (state.FastPeriod after the first call) or a server is
// created (state.BuildPeriod after the first create).
func (p *Project) wait(ctx context.Context, period time.Duration) {
	due := p.o.Clock.Now().Add(period)
	sooner := func(period time.Duration) {
		if soon := p.o.Clock.Now().Add(period); soon.Before(due) {
			due = soon
		}
	}
	for {
		left := due.Sub(p.o.Clock.Now())
		if left <= 0 {
			return
		}
		timer := p.o.Clock.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			return
		case <-p.kicks:
			timer.Stop()
			sooner(state.FastPeriod)
		case <-p.creates:
			timer.Stop()
			sooner(state.BuildPeriod)
		}
	}
}

// poll runs one round of lists, and returns the time until the next round.
func (p *Project) poll(ctx context.Context) time.Duration {
	s := p.session.Load()
	var round state.Round
	p.With(func(k *state.Project) { round = k.Round(p.o.Clock.Now()) })
	answers, err := p.ask(ctx, s, round)
	if err != nil {
		return p.listsFailed(ctx, s, err)
	}
	raised := p.lookAtQuotas(ctx, s)
	next, news := p.apply(ctx, answers)
	news.All = news.All || raised
	p.o.Changed(ctx, p, news)
	p.tagServers(ctx, s)
	p.lookAtUnjoined(ctx, s)
	p.removeDuplicates(ctx, s)
	p.releaseRetained(ctx, s)
	if round.Addresses && !round.First {
		p.listAddressesAgain(ctx, s, round.Started)
	}
	return next
}

// ask requests the lists of a round, except those of ports and floating IPs when these were listed before: then they must not delay
// what the list of servers shows.
func (p *Project) ask(ctx context.Context, s *client.Session, round state.Round) (state.Answers, error) {
	a := state.Answers{Round: round}
	if round.First {
		if err := p.listAddresses(ctx, s, round.Started); err != nil {
			return a, err
		}
	}
	a.Looked = round.SecondLook && p.takeSecondLook(ctx, s, round.Ports)
	asked := p.o.Clock.Now()
	rows, date, err := listServers(ctx, s, round.Since, round.Full)
	a.Rows, a.Date = rows, date.Time
	if date.dated {
		a.Ahead = date.Sub(asked)
	}
	return a, err
}

// listAddresses lists all ports and floating IPs of the project.
func (p *Project) listAddresses(ctx context.Context, s *client.Session, started time.Time) error {
	l, err := listAddresses(ctx, s)
	if err != nil {
		return err
	}
	p.With(func(k *state.Project) { k.ApplyAddresses(l, started, p.o.Clock.Now()) })
	return nil
}

// listAddressesAgain lists all ports and floating IPs again. When they cannot be listed now, the known ones stay, and the next try is
// made later: otherwise each list of servers would wait for a Neutron that does not answer.
func (p *Project) listAddressesAgain(ctx context.Context, s *client.Session, started time.Time) {
	err := p.listAddresses(ctx, s, started)
	if err == nil {
		return
	}
	log.FromContext(ctx).Info("Cannot list ports and floating IPs; keeping the known ones", "error", err.Error())
	p.With(func(k *state.Project) { k.AddressesFailed(p.o.Clock.Now()) })
}

// takeSecondLook reads these ports by their IDs, to see whether they are attached to servers that the list of servers does not show
// yet. It reports whether it has read all ports.
func (p *Project) takeSecondLook(ctx context.Context, s *client.Session, ids []string) bool {
	rows, err := listPorts(ctx, s, ids)
	if err != nil {
		log.FromContext(ctx).Info("Cannot look up ports without a server yet", "ports", len(ids), "error", err.Error())
		return false
	}
	p.With(func(k *state.Project) { k.SetPorts(rows, p.o.Clock.Now()) })
	return true
}

// apply updates the known resources from the lists. It returns the time until the next round and what has changed.
func (p *Project) apply(ctx context.Context, a state.Answers) (next time.Duration, news state.Change) {
	a.Now = p.o.Clock.Now()
	p.With(func(k *state.Project) { next, news = k.Apply(a) })
	if news.All {
		log.FromContext(ctx).Info("Listed the servers of a project", "servers", len(a.Rows))
	}
	return next, news
}

// listsFailed records a failed list, and returns the time until the next try. When the cloud refused the credentials, it switches
// to other credentials. When lists have failed for a long time, it triggers a reconcile of the Machines, so that their status
// shows the failure.
func (p *Project) listsFailed(ctx context.Context, s *client.Session, err error) time.Duration {
	if other := p.o.Other(p, s); other != nil && fault.Is(err, fault.Auth) {
		p.Use(other)
	}
	var f state.Failure
	p.With(func(k *state.Project) { f = k.Failed(err, p.o.Clock.Now()) })
	if f.First {
		log.FromContext(ctx).Info("Cannot list the servers of a project; keeping the known ones", "error", err.Error())
	}
	if f.Outdated {
		p.o.Changed(ctx, p, state.Change{All: true})
	}
	return f.Next
}
