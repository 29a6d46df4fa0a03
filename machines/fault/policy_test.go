package fault

import (
	"testing"
	"time"
)

func TestThePolicyOfEachFailureClass(t *testing.T) {
	for class, want := range map[Class]struct {
		backoff, resources bool
		shown              time.Duration
	}{
		Quota:       {true, true, 0},
		NoCapacity:  {true, true, 0},
		Invalid:     {true, false, 0},
		NotFound:    {true, false, 0},
		RateLimited: {false, false, -1},
		Auth:        {false, false, 5 * time.Minute},
		Transient:   {false, false, 5 * time.Minute},
		Conflict:    {false, false, 5 * time.Minute},
		Unknown:     {false, false, 5 * time.Minute},
		"made up":   {false, false, 5 * time.Minute},
	} {
		t.Run("failure class "+string(class)+" has the right back-off, and is shown to the autoscaler at the right time with the right error class (CA-C47)", func(t *testing.T) {
			p := PolicyOf(class)
			if p.OpensBackoff != want.backoff || p.OutOfResources != want.resources || p.ShownAfter != want.shown {
				t.Fatalf("PolicyOf() = %+v", p)
			}
			if p.Retry <= 0 || p.MaxRetry < p.Retry {
				t.Fatalf("PolicyOf() = %+v, want usable retry times", p)
			}
		})
	}
}

func TestTheWaitOfAGroupDependsOnTheNumberAndKindOfFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		class Class
		code  Code
		want  []time.Duration
	}{
		"the wait after failures for lack of capacity doubles with each failure, from 30 s up to 5 min":     {NoCapacity, CodeNoValidHost, []time.Duration{30, 60, 120, 240, 300, 300}},
		"the wait stays at 30 s when the cloud does not have the flavor (F-49)":                             {Invalid, CodeFlavorNotFound, []time.Duration{30, 30, 30, 30}},
		"when the cause of the failures is unknown, a group does not wait before its second failure (F-50)": {Unknown, CodeUnknown, []time.Duration{0, 30, 60, 120, 240, 300}},
	} {
		t.Run(name, func(t *testing.T) {
			for n, want := range tc.want {
				if got := GroupWait(tc.class, tc.code, int32(n+1)); got != want*time.Second {
					t.Errorf("GroupWait() after %d failures = %v, want %v", n+1, got, want*time.Second)
				}
			}
		})
	}
}
