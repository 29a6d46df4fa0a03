package openstack

import (
	"testing"
	"time"

	sim "github.com/drover-project/drover/test/openstack"
)

func TestClocksOfTheCloudAndOfDroverDiffer(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{
		"servers are created, noticed and removed, and tokens renewed, when the cloud's clock is two hours ahead (F-63, M.2)":  2 * time.Hour,
		"servers are created, noticed and removed, and tokens renewed, when the cloud's clock is two hours behind (F-63, M.2)": -2 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.ClockAhead, c.TokenTTL = ahead, 10*time.Minute })
			began := b.clock.Now()
			i, s := b.active(newMachine(t, "a", fullFields()))
			if took := b.clock.Since(began); took > time.Minute {
				t.Errorf("the server took %s", took)
			}
			if off := s.Created.Sub(began).Abs(); off > 2*time.Minute {
				t.Errorf("the server was created %s from now", off)
			}
			b.pass(25 * time.Minute)
			if got := b.calls("POST /auth/tokens"); got < 3 || got > 5 {
				t.Errorf("%d sign-ins in 25 minutes with tokens of ten minutes", got)
			}
			began = b.clock.Now()
			b.sim.FailServer(s.ID, "disk on fire")
			b.eventually("the failure is noticed", func() bool { return b.observe(i).Server.Fault != nil })
			if took := b.clock.Since(began); took > 2*time.Minute {
				t.Errorf("the failure was noticed after %s", took)
			}
			b.remove(i)
			b.nothingLeft()
		})
	}
}
