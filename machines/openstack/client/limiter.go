package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
	lim "github.com/drover-project/drover/machines/openstack/limiter"
)

const (
	// mostConcurrent bounds what one kind of request may have in flight, whatever the latency says.
	mostConcurrent = 64
	// patience is how long a request waits in line before its caller is sent away, to come back later: a worker is not
	// there to wait. It is short beside callTimeout, so that what is sent has the time to be answered.
	patience = 2 * time.Second
	// mostPromised bounds the time after which a caller is told to come back.
	mostPromised = 30 * time.Second
	// leastPeriod stands for the time between two requests before it is known, and below it nobody is told to come back.
	leastPeriod = 20 * time.Millisecond
)

// limits hold what each endpoint is asked: one gate per service and host.
type limits struct {
	clock clock.Clock
	mu    sync.Mutex
	gates map[gateKey]*gate
}

type gateKey struct {
	service Service
	host    string
}

func newLimits(c clock.Clock) *limits { return &limits{clock: c, gates: map[gateKey]*gate{}} }

func (l *limits) gate(s Service, host string) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := gateKey{s, host}
	g, ok := l.gates[key]
	if !ok {
		g = &gate{clock: l.clock, service: s, lanes: map[laneKey]*lane{}}
		l.gates[key] = g
	}
	return g
}

// gate lets requests through to one endpoint: each kind of request (verb and collection) in a lane of its own with its
// own concurrency, all of them under the endpoint's one pace and its rests.
type gate struct {
	clock   clock.Clock
	service Service

	mu    sync.Mutex
	rate  lim.Rate
	lanes map[laneKey]*lane
}

// laneKey is a kind of request: POST ports and POST floatingips differ in latency by a factor of five.
type laneKey struct{ verb, collection string }

type lane struct {
	concurrency *lim.Concurrency
	inFlight    int
	line        lim.Line[*place]
	// promised is, per group, when the caller that was sent away last will be back.
	promised map[string]time.Time
}

// place is a request that waits, or is on its way.
type place struct {
	group string
	ready chan struct{}
	// turn is when it may be sent; delayed when that was not at once. inFlight counts the lane when it was let through.
	turn     time.Time
	delayed  bool
	inFlight int
	sent     time.Time
}

// versionSegment is the part of a path that says the version of the API.
func versionSegment(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789.") == ""
}

// laneOf tells the kind of a request by its verb and by the collection that it is about.
func laneOf(req *http.Request) laneKey {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	collection := parts[len(parts)-1]
	for i, part := range parts {
		if versionSegment(part) && i+1 < len(parts) {
			collection = parts[i+1]
			if i+2 < len(parts) && LooksLikeID(collection) {
				collection = parts[i+2]
			}
		}
	}
	return laneKey{req.Method, collection}
}

func (g *gate) lane(key laneKey) *lane {
	l, ok := g.lanes[key]
	if !ok {
		l = &lane{concurrency: lim.NewConcurrency(mostConcurrent), promised: map[string]time.Time{}}
		g.lanes[key] = l
	}
	return l
}

// enter takes a place. While the endpoint rests the answer is RateLimited at once, with the time that is left; so it is
// when the line is long, with the time at which the caller's group has its turn.
func (g *gate) enter(ctx context.Context, key laneKey, group string) (*place, error) {
	g.mu.Lock()
	now := g.clock.Now()
	if left := g.rate.Paused(now); left > 0 {
		g.mu.Unlock()
		return nil, g.resting(left)
	}
	l := g.lane(key)
	p := &place{group: group, ready: make(chan struct{})}
	if l.line.Of(group) >= 2*l.concurrency.Limit()+8 {
		err := g.busy(l.promise(group, now, g.period(l)))
		g.mu.Unlock()
		return nil, err
	}
	l.line.Push(group, p)
	g.admit(l, now)
	g.mu.Unlock()
	if err := g.await(ctx, l, p); err != nil {
		return nil, err
	}
	return p, nil
}

// await waits for the place and for its turn.
func (g *gate) await(ctx context.Context, l *lane, p *place) error {
	select {
	case <-p.ready:
	default:
		timer := g.clock.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-p.ready:
		case <-timer.C():
			if err, left := g.giveUp(l, p); left {
				return err
			}
		case <-ctx.Done():
			if err, left := g.giveUp(l, p); left {
				return err
			}
		}
	}
	if wait := p.turn.Sub(g.clock.Now()); wait > 0 {
		timer := g.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			g.abandon(l)
			return g.busy(patience)
		}
	}
	g.mu.Lock()
	p.sent = g.clock.Now()
	left := g.rate.Paused(p.sent)
	g.mu.Unlock()
	if left > 0 {
		g.abandon(l)
		return g.resting(left)
	}
	return nil
}

// giveUp leaves the line; false when the place was given in the same moment.
func (g *gate) giveUp(l *lane, p *place) (error, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.line.Remove(p.group, p) {
		return nil, false
	}
	return g.busy(l.promise(p.group, g.clock.Now(), g.period(l))), true
}

// abandon gives a place back that was not used.
func (g *gate) abandon(l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.inFlight--
	g.admit(l, g.clock.Now())
}

// admit lets through as many as may be in flight, and whose turn comes soon; the caller holds the lock.
func (g *gate) admit(l *lane, now time.Time) {
	for l.inFlight < l.concurrency.Limit() {
		if l.inFlight > 0 && g.rate.Ahead(now) > patience/2 {
			return
		}
		p, ok := l.line.Pop()
		if !ok {
			return
		}
		l.inFlight++
		p.inFlight = l.inFlight
		p.turn = g.rate.Reserve(now)
		p.delayed = p.turn.After(now)
		close(p.ready)
	}
}

// period is the mean time between two requests of a lane under load; the caller holds the lock.
func (g *gate) period(l *lane) time.Duration {
	period := l.concurrency.Period()
	if r := g.rate.PerSecond(); r > 0 {
		period = max(period, time.Duration(float64(time.Second)/r))
	}
	return period
}

// promise spreads those who are sent away over the time from when their group's part of the line will be empty, each group
// over its share; the caller holds the lock.
func (l *lane) promise(group string, now time.Time, period time.Duration) time.Duration {
	if l.line.Len() == 0 && len(l.promised) > mostConcurrent {
		clear(l.promised)
	}
	turn := max(period, leastPeriod) * time.Duration(max(1, l.line.Groups()))
	next := l.promised[group]
	if empty := now.Add(turn * time.Duration(l.line.Of(group))); next.Before(empty) {
		next = empty
	}
	next = next.Add(turn)
	if most := now.Add(mostPromised); next.After(most) {
		next = most
	}
	l.promised[group] = next
	return next.Sub(now)
}

// result is how a request ended.
type result struct {
	// unsent: it was not sent after all.
	unsent bool
	// answered: the endpoint answered at all, and not that it cannot just now.
	answered bool
	// rest is how long it asked to be left alone.
	rest time.Duration
}

// leave gives the place back and learns from how it went.
func (g *gate) leave(key laneKey, p *place, r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	l := g.lane(key)
	l.inFlight--
	switch {
	case r.unsent:
	case r.rest > 0:
		g.rate.Refused(now, r.rest)
	case r.answered:
		g.rate.Passed(now, p.delayed)
		l.concurrency.Done(now, now.Sub(p.sent), p.inFlight)
	default:
		l.concurrency.Failed()
	}
	if g.rate.Paused(now) > 0 {
		g.disperse(now)
		return
	}
	g.admit(l, now)
}

// disperse lets everybody in line through, to be told that the endpoint rests; the caller holds the lock.
func (g *gate) disperse(now time.Time) {
	for _, l := range g.lanes {
		for p, ok := l.line.Pop(); ok; p, ok = l.line.Pop() {
			l.inFlight++
			p.turn = now
			close(p.ready)
		}
	}
}

func (g *gate) resting(left time.Duration) error {
	err := fault.New(fault.RateLimited, fault.CodeRateLimited, "the %s service asked to be left alone for %s", g.service, left.Round(time.Second))
	err.RetryAfter = left
	return err
}

func (g *gate) busy(wait time.Duration) error {
	err := fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "the %s service is busy with other requests of ours; the next turn is in %s", g.service, wait.Round(time.Second))
	err.RetryAfter = wait
	return err
}
