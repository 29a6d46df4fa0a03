package reach

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// answersAt returns an API server that answered at the given seconds after noon.
func answersAt(seconds ...int) *server {
	h := &server{cluster: "control", name: "the API server"}
	for _, s := range seconds {
		h.answer(at(s))
	}
	return h
}

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestWhenAnOutageOfTheAPIServerStopsDroversDecisions(t *testing.T) {
	for name, tt := range map[string]struct {
		server  *server
		now     int
		stale   bool
		trusted int
	}{
		"decisions are stopped from drover's start until the API server has answered for the first time (MCM-79)":      {answersAt(), 7, true, -1},
		"decisions are made after drover's start as soon as the API server has answered for the first time (MCM-79)":   {answersAt(4), 7, false, 4},
		"decisions are made while the API server answers every 5 s (MCM-79)":                                           {answersAt(5, 10, 15, 20), 24, false, 5},
		"decisions are made while the API server's last answer is less than 30 s old (MCM-79)":                         {answersAt(5, 10), 39, false, 5},
		"decisions stop once the API server's last answer is 30 s old (MCM-79)":                                        {answersAt(5, 10), 40, true, 5},
		"decisions stay stopped while the API server still does not answer, even after more than an hour (MCM-79)":     {answersAt(5, 10), 4000, true, 5},
		"decisions stay stopped for 30 s after the outage, so that the informer caches can catch up (MCM-79)":          {answersAt(5, 10, 100, 105, 110, 115, 120, 125), 129, true, 130},
		"decisions are made again 30 s after the end of the outage, and timeouts start again (MCM-51, MCM-79)":         {answersAt(5, 10, 100, 105, 110, 115, 120, 125), 130, false, 130},
		"decisions stop again in a second outage, and the state then shows the time of the second stop (MCM-79)":       {answersAt(5, 100, 125, 150, 175, 200), 230, true, 130},
		"decisions stop in a second outage that begins less than 30 s after the first outage (MCM-79)":                 {answersAt(5, 100, 105), 135, true, 130},
		"decisions continue and timeouts keep running when the API server does not answer for less than 30 s (MCM-51)": {answersAt(5, 34), 40, false, 5},
	} {
		t.Run(name, func(t *testing.T) {
			why, want := tt.server.stale(at(tt.now)), time.Time{}
			if tt.trusted >= 0 {
				want = at(tt.trusted)
			}
			if (why != "") != tt.stale || !tt.server.trusted.Equal(want) {
				t.Errorf("stale() = %q, trusted from %v; want a reason: %v, and %v", why, tt.server.trusted, tt.stale, want)
			}
		})
	}
}

func TestTheStateOfTwoAPIServers(t *testing.T) {
	// both returns a watch of the two servers, 100 s after noon.
	both := func(control, target *server) *Watch {
		return &Watch{Options: Options{Clock: clocktesting.NewFakePassiveClock(at(100))}, servers: []*server{control, target}}
	}
	t.Run("decisions are stopped while one of two API servers does not answer (MCM-79)", func(t *testing.T) {
		for _, w := range []*Watch{both(answersAt(90), answersAt(50)), both(answersAt(50), answersAt(90))} {
			if why, _ := w.Stale(); why != "the API server has not answered since 2026-01-01T12:00:50Z" || w.Away() != why {
				t.Errorf("Stale() = %q, Away() = %q", why, w.Away())
			}
		}
	})
	t.Run("timeouts start again at the time from which both API servers answer (MCM-51)", func(t *testing.T) {
		if why, since := both(answersAt(5, 90), answersAt(80)).Stale(); why == "" || !since.Equal(at(120)) {
			t.Errorf("Stale() = %q, %v", why, since)
		}
		if why, since := both(answersAt(75, 90), answersAt(80)).Stale(); why != "" || !since.Equal(at(80)) {
			t.Errorf("Stale() = %q, %v", why, since)
		}
	})
}

func TestAnOutageOfTheAPIServerIsReported(t *testing.T) {
	t.Run("an outage is reported once the API server has not answered for 30 s, until it answers again (CA-C13, MCM-79)", func(t *testing.T) {
		h := answersAt(5)
		if early, late := h.away(at(34)), h.away(at(36)); early != "" || !strings.Contains(late, "the API server has not answered since 2026-01-01T12:00:05Z") {
			t.Errorf("away() = %q, then %q", early, late)
		}
		h.answer(at(100))
		if why := h.away(at(101)); why != "" {
			t.Errorf("away() = %q although it answers again", why)
		}
	})
	t.Run("an outage is reported while the API server has never answered", func(t *testing.T) {
		if why := answersAt().away(at(1)); why != "the API server has not been reached yet" {
			t.Errorf("away() = %q", why)
		}
	})
}
