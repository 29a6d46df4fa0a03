package deployment_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// counted counts calls.
type counted struct {
	http.RoundTripper
	calls *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

func TestAWatchThatIsMinutesLateCausesFewCalls(t *testing.T) {
	for _, resource := range []string{"machinedeployments", "machinesets", "machines"} {
		t.Run("the controllers make at most 300 calls in five minutes while the watch of "+resource+" is late", func(t *testing.T) {
			var late, calls atomic.Int64
			lag := func(kind string) time.Duration {
				if kind != resource {
					return 0
				}
				return time.Duration(late.Load())
			}
			over := func(next http.RoundTripper) http.RoundTripper { return counted{next, &calls} }
			inFlipOver(t, lag, over, func(h *harness) {
				h.template("1.37.2")
				time.Sleep(time.Second)
				late.Store(int64(5 * time.Minute))
				before := calls.Load()
				h.patch("flip", `{"spec":{"replicas":2}}`)
				time.Sleep(5 * time.Minute)
				if n := calls.Load() - before; n > 300 {
					t.Errorf("%d calls in five minutes", n)
				}
			})
		})
	}
}
