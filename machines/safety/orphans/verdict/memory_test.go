package verdict

import (
	"testing"
	"time"
)

func TestWhichPeriodsWithoutALeaderAreRecorded(t *testing.T) {
	t.Run("when drover cannot store one more period without a leader, it joins the two periods with the shortest gap into one (MCM-82)", func(t *testing.T) {
		var s Stored
		at := noon
		for n := range mostSpans + 1 {
			s = s.WithUnled(Span{at, at.Add(10 * time.Minute)})
			if at = at.Add(24 * time.Hour); n == 7 {
				at = at.Add(-23 * time.Hour)
			}
		}
		joined := noon.Add(7*24*time.Hour + 30*time.Minute)
		if len(s.Unled) != mostSpans || s.Unled[0] != (Span{noon, noon.Add(10 * time.Minute)}) || !s.Unled[7].Contains(joined) {
			t.Errorf("got %d, such as %v", len(s.Unled), s.Unled[:9])
		}
		for _, span := range s.Unled {
			if span.Contains(noon.Add(12 * time.Hour)) {
				t.Errorf("%v includes a time with a leader", span)
			}
		}
	})
	for name, tc := range map[string]struct {
		length time.Duration
		want   bool
	}{"a minute without a leader, as in a restart, is not recorded": {time.Minute, false}, "90 seconds without a leader are recorded": {90 * time.Second, true}, "an hour without a leader is recorded": {time.Hour, true}} {
		if got := Matters(Span{noon, noon.Add(tc.length)}); got != tc.want {
			t.Errorf("%s: Matters() = %v", name, got)
		}
	}
	if !Matters(Span{To: noon}) {
		t.Error("Matters() = false without a known leader before")
	}
}
