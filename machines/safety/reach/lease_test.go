package reach

import (
	"testing"
	"time"
)

func TestTimeCountsAsTimeWithoutALeaderWhileDroversLeaseIsReleasedOrNotRenewed(t *testing.T) {
	// renewed renews the lease every 10 s during the time d.
	renewed := func(control *fakeServer, d time.Duration) {
		for ; d > 0; d -= 10 * time.Second {
			time.Sleep(10 * time.Second)
			control.version.Add(1)
		}
	}
	watched(t, func(t *testing.T, w *Watch, control, _ *fakeServer) {
		control.holder.Store("one")
		renewed(control, 5*time.Minute)
		if d := w.Leaderless(); d >= 30*time.Second {
			t.Errorf("a renewed lease counts as not held for %v (MCM-80)", d)
		}
		time.Sleep(2 * time.Minute)
		if d := w.Leaderless(); d < time.Minute {
			t.Errorf("a lease that is not renewed counts as not held for %v (MCM-80)", d)
		}
		control.holder.Store("")
		renewed(control, 2*time.Minute)
		if d := w.Leaderless(); d < 3*time.Minute {
			t.Errorf("a released lease counts as not held for %v (MCM-80)", d)
		}
	})
}
