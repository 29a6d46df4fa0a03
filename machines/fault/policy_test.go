package fault

import (
	"testing"
	"time"
)

func TestThePolicyOfEachFailureClass(t *testing.T) {
	for class, want := range map[Class]struct {
		does               string
		backoff, resources bool
		shown              time.Duration
	}{
		Quota:                              {"starts a back-off, and is shown to the autoscaler at once as lack of resources", true, true, 0},
		NoCapacity:                         {"starts a back-off, and is shown to the autoscaler at once as lack of resources", true, true, 0},
		Invalid:                            {"starts a back-off, and is shown to the autoscaler at once as another error than lack of resources", true, false, 0},
		NotFound:                           {"starts a back-off, and is shown to the autoscaler at once as another error than lack of resources", true, false, 0},
		RateLimited:                        {"starts no back-off, and is never shown to the autoscaler", false, false, -1},
		Auth:                               {"starts no back-off, and is shown to the autoscaler when it lasts for five minutes", false, false, 5 * time.Minute},
		Transient:                          {"starts no back-off, and is shown to the autoscaler when it lasts for five minutes", false, false, 5 * time.Minute},
		Conflict:                           {"starts no back-off, and is shown to the autoscaler when it lasts for five minutes", false, false, 5 * time.Minute},
		Unknown:                            {"starts no back-off, and is shown to the autoscaler when it lasts for five minutes", false, false, 5 * time.Minute},
		"X, which drover does not define,": {"starts no back-off, and is shown to the autoscaler when it lasts for five minutes", false, false, 5 * time.Minute},
	} {
		t.Run("failure class "+string(class)+" "+want.does+" (CA-C47)", func(t *testing.T) {
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

func TestHowLongAGroupWaitsAfterAFailureBeforeItTriesAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		class Class
		code  Code
		want  []time.Duration
	}{
		"the wait after failures for lack of capacity doubles with each failure, from 30 s up to 5 min":               {NoCapacity, CodeNoValidHost, []time.Duration{30, 60, 120, 240, 300, 300}},
		"the wait stays at 30 s when the cloud does not have the flavor (F-49)":                                       {Invalid, CodeFlavorNotFound, []time.Duration{30, 30, 30, 30}},
		"a group does not wait after its first failure with an unknown cause, and waits 30 s after the second (F-50)": {Unknown, CodeUnknown, []time.Duration{0, 30, 60, 120, 240, 300}},
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
