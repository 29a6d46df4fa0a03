package openstack

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

// concurrencyPerEndpoint is how many requests one endpoint is asked at a time. Neutron's rate is flat from 2 on and its
// latency grows from there; Nova gains up to about 8.
const concurrencyPerEndpoint = 8

// limiter bounds what each endpoint is asked, one gate per service and host.
type limiter struct {
	mu    sync.Mutex
	gates map[string]*gate
}

func newLimiter() *limiter { return &limiter{gates: map[string]*gate{}} }

func (l *limiter) gate(s service, host string) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := string(s) + " " + host
	g, ok := l.gates[key]
	if !ok {
		g = &gate{service: s, slots: make(chan struct{}, concurrencyPerEndpoint)}
		l.gates[key] = g
	}
	return g
}

// gate lets a bounded number of requests through to one endpoint, and none while the endpoint wants to be left alone.
type gate struct {
	service service
	slots   chan struct{}

	mu     sync.Mutex
	closed time.Time
}

// enter takes a slot. While the endpoint rests the answer is RateLimited at once, with the time that is left: nobody
// waits inside a worker.
func (g *gate) enter(ctx context.Context, now time.Time) error {
	g.mu.Lock()
	left := g.closed.Sub(now)
	g.mu.Unlock()
	if left > 0 {
		err := fault.New(fault.RateLimited, fault.CodeRateLimited, "the %s service asked to be left alone for %s", g.service, left.Round(time.Second))
		err.RetryAfter = left
		return err
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.RateLimited, fault.CodeRateLimited, "the %s service is busy with %d other requests of ours", g.service, cap(g.slots))
	}
}

func (g *gate) leave() { <-g.slots }

// pause closes the gate until then; it never opens it earlier.
func (g *gate) pause(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.closed) {
		g.closed = until
	}
}
