package client

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

// endpoint answers one request after another, each in so long.
type endpoint struct {
	mu    sync.Mutex
	takes time.Duration
	free  time.Time
}

func (e *endpoint) serve() {
	e.mu.Lock()
	now := time.Now()
	if e.free.Before(now) {
		e.free = now
	}
	e.free = e.free.Add(e.takes)
	wait := e.free.Sub(now)
	e.mu.Unlock()
	time.Sleep(wait)
}

var posts = laneKey{"POST", "ports"}

// through makes one request, however often it is sent away, and gives how long that took.
func through(g *gate, e *endpoint, group string) time.Duration {
	began := time.Now()
	for {
		p, err := g.enter(context.Background(), posts, group)
		if err != nil {
			time.Sleep(fault.Of(err).RetryAfter)
			continue
		}
		e.serve()
		g.leave(posts, p, result{answered: true})
		return time.Since(began)
	}
}

func TestAGateSharesBetweenGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimits(clock.RealClock{}).gate(Network, "host")
		e := &endpoint{takes: 50 * time.Millisecond}
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() { through(g, e, "many") })
		}
		time.Sleep(2 * time.Second)
		const few = 10
		var mu sync.Mutex
		var longest time.Duration
		for range few {
			wg.Go(func() {
				took := through(g, e, "few")
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, took)
			})
		}
		began := time.Now()
		wg.Wait()
		share := 2 * few * e.takes
		if longest > 2*share {
			t.Errorf("CAPI-24: the small group waited %s, its share takes %s", longest, share)
		}
		if took, floor := time.Since(began), 270*e.takes; took > floor*12/10 {
			t.Errorf("all took %s, the endpoint needs %s", took, floor)
		}
	})
}

func TestAWorkerIsSentAwayFromALongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimits(clock.RealClock{}).gate(Network, "host")
		e := &endpoint{takes: time.Second}
		longest, away := time.Duration(0), 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				began := time.Now()
				p, err := g.enter(context.Background(), posts, "g")
				waited := time.Since(began)
				if err == nil {
					e.serve()
					g.leave(posts, p, result{answered: true})
				}
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, waited)
				if after := fault.Of(err); err != nil {
					away++
					if after.Class != fault.RateLimited || after.RetryAfter <= 0 || after.RetryAfter > mostPromised {
						t.Errorf("got %v", err)
					}
				}
			})
		}
		wg.Wait()
		if longest > patience || away < 90 {
			t.Errorf("a worker waited %s, %d were sent away", longest, away)
		}
	})
}

func TestARefusalClosesTheGateForAllInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimits(clock.RealClock{}).gate(Network, "host")
		first, err := g.enter(t.Context(), posts, "g")
		if err != nil {
			t.Fatal(err)
		}
		refused := make(chan error, 3)
		for range cap(refused) {
			go func() {
				_, err := g.enter(context.Background(), posts, "g")
				refused <- err
			}()
		}
		synctest.Wait()
		g.leave(posts, first, result{answered: true, rest: 30 * time.Second})
		for range cap(refused) {
			if e := fault.Of(<-refused); e == nil || e.RetryAfter != 30*time.Second {
				t.Errorf("CAPI-16: got %+v", e)
			}
		}
		if _, err := g.enter(t.Context(), laneKey{"GET", "networks"}, ""); !fault.Is(err, fault.RateLimited) {
			t.Errorf("CAPI-16: another verb of the endpoint got %v", err)
		}
		time.Sleep(30 * time.Second)
		if _, err := g.enter(t.Context(), posts, "g"); err != nil {
			t.Errorf("after the rest: %v", err)
		}
	})
}

func TestACallerThatGoesAwayLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newLimits(clock.RealClock{}).gate(Network, "host")
		first, err := g.enter(t.Context(), posts, "g")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := g.enter(ctx, posts, "g"); !fault.Is(err, fault.RateLimited) {
			t.Errorf("got %v", err)
		}
		g.leave(posts, first, result{answered: true})
		if _, err := g.enter(t.Context(), posts, "g"); err != nil {
			t.Error(err)
		}
	})
}

func TestTheKindOfARequest(t *testing.T) {
	for url, want := range map[string]string{
		"http://h/compute/v2.1/servers/detail?limit=1":                              "servers",
		"http://h/compute/v2.1/servers/11111111-0000-0000-0000-000000000001/action": "servers",
		"http://h/v2.1/0123456789abcdef0123456789abcdef/servers":                    "servers",
		"http://h/network/v2.0/ports":                                               "ports",
		"http://h:9696/v2.0/floatingips/1":                                          "floatingips",
		"http://h/identity/v3/auth/tokens":                                          "auth",
		"http://h/volume/v3/0123456789abcdef0123456789abcdef/volumes/1":             "volumes",
		"http://h/compute/v2.1/":                                                    "v2.1",
	} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := laneOf(req); got.collection != want || got.verb != "GET" {
			t.Errorf("%s: got %v, want %s", url, got, want)
		}
	}
}
