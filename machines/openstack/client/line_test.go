package client

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// served returns the names of the waiting requests in the order in which the line calls them.
func served(l *line) (names []string) {
	for {
		l.endRound()
		l.callNext()
		if l.called == 0 {
			return names
		}
		for _, w := range l.machines {
			if w.round == l.round {
				names = append(names, string(w.UID))
				l.leave(w)
			}
		}
	}
}

// full returns a line with one slot, which is taken. Waiting requests are called one after the other when the slot is free.
func full(t *testing.T) *line {
	t.Helper()
	l := newLine(&endpoint{})
	l.limit = 1
	if !l.enter(&waiter{Caller: member("g", "first")}) {
		t.Fatal("a free line lets a request wait")
	}
	return l
}

func TestGroupsTakeTurns(t *testing.T) {
	many, few := "many", "few"
	ask := func(l *line, group string, names ...string) {
		for _, name := range names {
			l.enter(&waiter{Caller: member(group, name), wake: func() {}})
		}
	}
	for _, c := range []struct {
		name string
		do   func(l *line)
		want []string
	}{
		{"a group with few requests and a group with many are served alternately (CAPI-24)", func(*line) {}, []string{"m0", "f0", "m1", "f1", "m2", "m3"}},
		{"a request that left the line is not served, and does not cost its group a turn (CAPI-24)", func(l *line) { l.leave(l.machines["m1"]) }, []string{"m0", "f0", "m2", "f1", "m3"}},
		{"a request that was called and came too late is served before all others", func(l *line) {
			l.inFlight = 0
			l.callNext()
			l.inFlight = 1
			ask(l, many, "m0")
		}, []string{"m0", "f0", "m1", "f1", "m2", "m3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := full(t)
			ask(l, many, "m0", "m1", "m2", "m3")
			ask(l, few, "f0", "f1")
			c.do(l)
			l.inFlight = 0
			if got := served(l); !slices.Equal(got, c.want) {
				t.Errorf("served in the order %v, want %v", got, c.want)
			}
			if len(l.waiting)+len(l.machines)+len(l.served)+l.called > 0 {
				t.Errorf("F-12: something is left: %+v", l)
			}
		})
	}
}

func TestLimitOfRequestsInFlight(t *testing.T) {
	for _, most := range []int{1, 2, 5, 12} {
		t.Run(fmt.Sprintf("an endpoint that refuses more than %d requests in flight gets at least 60 %% of what it can answer, and refuses at most every third (CAPI-17)", most), func(t *testing.T) {
			l := newLine(&endpoint{})
			answered, refused, possible := 0, 0, 0
			for range 1000 {
				inFlight := int(l.limit)
				possible += most
				for n := range inFlight {
					if n < most {
						answered++
						l.succeeded(time.Second, inFlight)
					} else {
						refused++
						l.failed()
					}
				}
			}
			if 10*answered < 6*possible || 2*refused > answered+50 {
				t.Errorf("%d answered of %d, %d refused", answered, possible, refused)
			}
		})
	}
	answers := func(l *line, n int, took time.Duration, shared func() int) {
		for range n {
			l.succeeded(took, shared())
		}
	}
	for _, c := range []struct {
		name string
		come func(l *line, all, one func() int)
		want float64
	}{
		{"the limit is never below 1 (CAPI-17)", func(*line, func() int, func() int) {}, 1},
		{"it rises to 16 when the endpoint answers after a long time (CAPI-17)", func(l *line, all, _ func() int) {
			answers(l, 5000, 30*time.Second, all)
		}, usualConcurrent},
		{"it rises to 64 when the answers to many requests at a time are prompt (CAPI-17)", func(l *line, all, _ func() int) {
			answers(l, 5000, time.Second, all)
		}, mostConcurrent},
		{"it rises to 16 when the answers to lone requests are prompt (CAPI-17)", func(l *line, _, one func() int) {
			answers(l, 5000, time.Second, one)
		}, usualConcurrent},
		{"it is 16 again after a late answer (CAPI-17)", func(l *line, all, _ func() int) {
			answers(l, 5000, time.Second, all)
			answers(l, 1, 6*time.Second, all)
		}, usualConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLine(&endpoint{})
			for range 20 {
				l.failed()
			}
			c.come(l, func() int { return int(l.limit) }, func() int { return 1 })
			if int(l.limit) != int(c.want) {
				t.Errorf("the limit is %v, want %v", l.limit, c.want)
			}
		})
	}
}
