package reach

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// answersAt returns the history of an API server that answered at the given seconds after noon.
func answersAt(seconds ...int) *history {
	h := &history{name: "the API server", began: noon}
	for _, s := range seconds {
		h.answer(at(s))
	}
	return h
}

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestWhenAnOutageOfTheAPIServerStopsDroversDecisions(t *testing.T) {
	for name, tt := range map[string]struct {
		history          *history
		now              int
		frozen           bool
		since, recovered int
	}{
		"decisions are stopped from drover's start until the API server has answered for the first time (MCM-79)":      {answersAt(), 7, true, 0, -1},
		"decisions are made after drover's start as soon as the API server has answered for the first time (MCM-79)":   {answersAt(4), 7, false, -1, 4},
		"decisions are made while the API server answers every 5 s (MCM-79)":                                           {answersAt(5, 10, 15, 20), 24, false, -1, 5},
		"decisions are made while the API server's last answer is less than 30 s old (MCM-79)":                         {answersAt(5, 10), 39, false, -1, 5},
		"decisions stop once the API server's last answer is 30 s old (MCM-79)":                                        {answersAt(5, 10), 40, true, 40, 5},
		"decisions stay stopped while the API server still does not answer, even after more than an hour (MCM-79)":     {answersAt(5, 10), 4000, true, 40, 5},
		"decisions stay stopped for 30 s after the outage, so that the informer caches can catch up (MCM-79)":          {answersAt(5, 10, 100, 105, 110, 115, 120, 125), 129, true, 40, 130},
		"decisions are made again 30 s after the end of the outage, and timeouts start again (MCM-51, MCM-79)":         {answersAt(5, 10, 100, 105, 110, 115, 120, 125), 130, false, -1, 130},
		"decisions stop again in a second outage, and the state then shows the time of the second stop (MCM-79)":       {answersAt(5, 100, 125, 150, 175, 200), 230, true, 230, 130},
		"decisions stop in a second outage that begins less than 30 s after the first outage (MCM-79)":                 {answersAt(5, 100, 105), 135, true, 135, 130},
		"decisions continue and timeouts keep running when the API server does not answer for less than 30 s (MCM-51)": {answersAt(5, 34), 40, false, -1, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.history.state(at(tt.now))
			want := State{Frozen: tt.frozen}
			if tt.since >= 0 {
				want.Since = at(tt.since)
			}
			if tt.recovered >= 0 {
				want.Recovered = at(tt.recovered)
			}
			if s.Frozen != want.Frozen || !s.Since.Equal(want.Since) || !s.Recovered.Equal(want.Recovered) || (s.Message != "") != s.Frozen {
				t.Errorf("got  %+v\nwant %+v", s, want)
			}
		})
	}
}

func TestTheCombinedStateOfTwoAPIServers(t *testing.T) {
	control := State{Recovered: at(100)}
	target := State{Frozen: true, Since: at(200), Recovered: at(50), Message: "the target does not answer"}
	t.Run("decisions are stopped while one of two API servers does not answer (MCM-79)", func(t *testing.T) {
		if got := together(control, target); !got.Frozen || !got.Since.Equal(at(200)) || got.Message != target.Message {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("timeouts start again at the time from which both API servers answer (MCM-51)", func(t *testing.T) {
		if got := together(control, State{Recovered: at(50)}); got.Frozen || !got.Recovered.Equal(at(100)) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("when neither API server answers, the combined state names both, and the start of the outage that began first (MCM-79)", func(t *testing.T) {
		got := together(State{Frozen: true, Since: at(210), Message: "control"}, target)
		if !got.Since.Equal(at(200)) || got.Message != "control; the target does not answer" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAnOutageOfTheAPIServerIsReported(t *testing.T) {
	t.Run("an outage is reported once the API server has not answered for 30 s, until it answers again (CA-C13, MCM-79)", func(t *testing.T) {
		h := answersAt(5)
		if early, late := h.away(at(34)), h.away(at(36)); early != "" || !strings.Contains(late, "the API server has been out of reach for 31s") {
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
