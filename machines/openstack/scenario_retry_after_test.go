package openstack

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestRetryAfterOfADay(t *testing.T) {
	t.Parallel()
	t.Run("drover waits five minutes instead of the day that Retry-After asks for, and then sends one request (F-26)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /ports", Times: 2, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"86400"}}})
		b.sim.ForgetCalls()
		for probes := 1; probes <= 2; probes++ {
			err := i.ensurePorts(b.ctx)
			if e := fault.Of(err); e == nil || e.Class != fault.RateLimited || e.RetryAfter > 5*time.Minute || e.RetryAfter < 4*time.Minute {
				t.Fatalf("got %v, to come back after %s", err, fault.Of(err).RetryAfter)
			}
			if err := i.ensurePorts(b.ctx); !fault.Is(err, fault.RateLimited) || b.calls("POST /ports") != probes {
				t.Errorf("got %v after %d calls, want %d", err, b.calls("POST /ports"), probes)
			}
			b.clock.Step(5 * time.Minute)
		}
		if err := i.ensurePorts(b.ctx); err != nil {
			t.Errorf("after the second five minutes: %v", err)
		}
	})
}
