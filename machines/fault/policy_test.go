package fault

import (
	"testing"
	"time"
)

func TestThePolicyOfEachFailureClass(t *testing.T) {
	const (
		lack  = "starts a back-off, and is shown to the autoscaler at once as lack of resources"
		other = "starts a back-off, and is shown to the autoscaler at once as another error than lack of resources"
		later = "starts no back-off, and is shown to the autoscaler when it lasts for five minutes"
	)
	unknown := Policy{Retry: 2 * time.Second, MaxRetry: 5 * time.Minute, ShownAfter: 5 * time.Minute}
	for class, tt := range map[Class]struct {
		does string
		want Policy
	}{
		Quota:                              {lack, Policy{Retry: 30 * time.Second, MaxRetry: 5 * time.Minute, OpensBackoff: true, OutOfResources: true}},
		NoCapacity:                         {lack, Policy{Retry: 30 * time.Second, MaxRetry: 5 * time.Minute, OpensBackoff: true, OutOfResources: true}},
		Invalid:                            {other, Policy{Retry: 30 * time.Second, MaxRetry: 5 * time.Minute, OpensBackoff: true}},
		NotFound:                           {other, Policy{Retry: 30 * time.Second, MaxRetry: 5 * time.Minute, OpensBackoff: true}},
		RateLimited:                        {"starts no back-off, and is never shown to the autoscaler", Policy{Retry: 100 * time.Millisecond, MaxRetry: 100 * time.Millisecond, ShownAfter: -1}},
		Auth:                               {later, unknown},
		Transient:                          {later, Policy{Retry: 2 * time.Second, MaxRetry: time.Minute, ShownAfter: 5 * time.Minute}},
		Conflict:                           {later, Policy{Retry: 2 * time.Second, MaxRetry: time.Minute, ShownAfter: 5 * time.Minute}},
		Unknown:                            {later, unknown},
		"X, which drover does not define,": {later, unknown},
	} {
		t.Run("failure class "+string(class)+" "+tt.does+" (CA-C47)", func(t *testing.T) {
			got := PolicyOf(class)
			if got.Remedy == "" {
				t.Error("PolicyOf() does not say what a person can do")
			}
			if got.Remedy = ""; got != tt.want {
				t.Errorf("PolicyOf() = %+v, want %+v", got, tt.want)
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
