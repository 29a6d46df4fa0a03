package inventory

import (
	"testing"
	"time"
)

func TestSettled(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		fulls int
		want  bool
	}{
		"CAPI-19 too early":           {SettleTime - time.Second, 5, false},
		"CAPI-19 too few lists":       {time.Hour, 1, false},
		"CAPI-19 both time and lists": {SettleTime, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := attempt{ended: noon, fulls: 3}
			if got := a.settled(noon.Add(tc.after), 3+tc.fulls); got != tc.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}
