package openstack

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	sim "github.com/drover-project/drover/test/openstack"
)

func TestDeletionOfAServerIsRequestedAgainOnlyAfterABackOff(t *testing.T) {
	t.Parallel()
	t.Run("drover repeats the DELETE request for a server only after 30 seconds, however often DeleteServer is called (MC-64)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.DeleteTime = 10 * time.Minute })
		i, _ := b.active(newMachine(t, "a", seedFields()))
		for range 100 {
			if err := i.DeleteServer(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.calls("DELETE /servers/{id}"); got != 1 {
			t.Errorf("MC-64: %d DELETEs", got)
		}
		b.pass(31 * time.Second)
		if err := i.DeleteServer(b.ctx); err != nil {
			t.Fatal(err)
		}
		if got := b.calls("DELETE /servers/{id}"); got != 2 {
			t.Errorf("MC-64: %d DELETEs after the back-off, want 2", got)
		}
	})
}

func TestDeletionOfAServerThatNovaDoesNotComplete(t *testing.T) {
	t.Parallel()
	const forced = "POST /servers/{id}/action"
	for name, refusal := range map[string]sim.Fault{
		"the fourth request asks Nova for a forced deletion, and a metric counts the stuck server (CAPI-44, MC-64)": {},
		"plain deletion requests are still sent when Nova refuses forced deletions":                                 {Call: forced, Status: 403},
		"plain deletion requests are still sent when a proxy refuses forced deletions (F-132)":                      sim.ProxyPage(forced, 403),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.DeleteTime = 24 * time.Hour })
			registry := prometheus.NewRegistry()
			b.options.Registry = registry
			b.restart()
			i, _ := b.active(newMachine(t, "a", seedFields()))
			refuse := refusal.Call != ""
			if refuse {
				b.sim.Inject(refusal)
			}
			for round := range 5 {
				if err := i.DeleteServer(b.ctx); err != nil {
					t.Fatal(err)
				}
				b.pass(6 * time.Minute)
				if n := valueOf(t, registry, "drover_openstack_stuck_deletions"); round == 0 && n != 0 || round == 2 && n != 1 {
					t.Errorf("after %d × 6 minutes the metric shows %v stuck deletions", round+1, n)
				}
			}
			polite, hard := 3, 1
			if refuse {
				polite, hard = 5, 2
			}
			if p, f := b.calls("DELETE /servers/{id}"), b.calls(forced); p != polite || f != hard {
				t.Errorf("%d plain deletions, %d forced", p, f)
			}
		})
	}
}
