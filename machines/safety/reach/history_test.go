package reach

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// answersAt returns the history of an API server that answered at these seconds after noon.
func answersAt(seconds ...int) *history {
	h := &history{name: "the API server", began: noon}
	for _, s := range seconds {
		h.answer(at(s))
	}
	return h
}

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestState(t *testing.T) {
	for name, tt := range map[string]struct {
		history          *history
		now              int
		frozen           bool
		since, recovered int
	}{
		"one that never answered stands still from the beginning (MCM-79)":             {answersAt(), 7, true, 0, -1},
		"one that has just answered first can be relied on, from then on (MCM-79)":     {answersAt(4), 7, false, -1, 4},
		"one that answers every 5 s too (MCM-79)":                                      {answersAt(5, 10, 15, 20), 24, false, -1, 5},
		"one that has not answered for less than 30 s too (MCM-79)":                    {answersAt(5, 10), 39, false, -1, 5},
		"one that has not for 30 s stands still (MCM-79)":                              {answersAt(5, 10), 40, true, 40, 5},
		"for as long as that lasts (MCM-79)":                                           {answersAt(5, 10), 4000, true, 40, 5},
		"when it answers again, what the caches missed is awaited for 30 s (MCM-79)":   {answersAt(5, 10, 100, 105, 110, 115, 120, 125), 129, true, 40, 130},
		"then it can be relied on again, and timers begin from there (MCM-51, MCM-79)": {answersAt(5, 10, 100, 105, 110, 115, 120, 125), 130, false, -1, 130},
		"a second outage counts from its own beginning (MCM-79)":                       {answersAt(5, 100, 125, 150, 175, 200), 230, true, 230, 130},
		"an outage that begins while the caches are awaited goes on (MCM-79)":          {answersAt(5, 100, 105), 135, true, 135, 130},
		"a short silence is no outage, and restarts no timer (MCM-51)":                 {answersAt(5, 34), 40, false, -1, 5},
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

func TestTogether(t *testing.T) {
	control := State{Recovered: at(100)}
	target := State{Frozen: true, Since: at(200), Recovered: at(50), Message: "the target does not answer"}
	t.Run("one that does not answer is enough (MCM-79)", func(t *testing.T) {
		if got := together(control, target); !got.Frozen || !got.Since.Equal(at(200)) || got.Message != target.Message {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("timers begin when both could be relied on (MCM-51)", func(t *testing.T) {
		if got := together(control, State{Recovered: at(50)}); got.Frozen || !got.Recovered.Equal(at(100)) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("of two that do not answer both are named, since the first (MCM-79)", func(t *testing.T) {
		got := together(State{Frozen: true, Since: at(210), Message: "control"}, target)
		if !got.Since.Equal(at(200)) || got.Message != "control; the target does not answer" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAway(t *testing.T) {
	t.Run("changes are refused while it does not answer, and no longer (CA-C13, MCM-79)", func(t *testing.T) {
		h := answersAt(5)
		if early, late := h.away(at(34)), h.away(at(36)); early != "" || !strings.Contains(late, "the API server has been out of reach for 31s") {
			t.Errorf("it is %q, then %q", early, late)
		}
		h.answer(at(100))
		if why := h.away(at(101)); why != "" {
			t.Errorf("it is %q although it answers again", why)
		}
	})
	t.Run("also before its first answer", func(t *testing.T) {
		if why := answersAt().away(at(1)); why != "the API server has not been reached yet" {
			t.Errorf("it is %q", why)
		}
	})
}
