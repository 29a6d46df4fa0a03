package backoff

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhichMachinesOfAGroupMayCreateServersAfterFailures(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	deployment.UID = "d"
	one, two := small, small
	one.Machine.Name, one.UID = "one", "1"
	two.Machine.Name, two.UID = "two", "2"
	woken := map[string]int{}
	fresh := func() *Groups {
		clear(woken)
		return NewGroups(func(key types.NamespacedName) { woken[key.Name]++ })
	}
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

	t.Run("no Machine may create a server during the back-off, and only one may do so right after the back-off (CAPI-22)", func(t *testing.T) {
		s := fresh()
		s.Failed(deployment, one, quota, noon)
		if a := s.TakeTurn(deployment, two, time.Time{}, at(29)); a.Allowed || a.Backoff == nil || !a.RetryAt.Equal(at(30)) {
			t.Errorf("before: %+v", a)
		}
		if a := s.TakeTurn(deployment, two, time.Time{}, at(30)); !a.Allowed {
			t.Errorf("the first Machine after the wait: got %+v, want it allowed", a)
		}
		if a := s.TakeTurn(deployment, one, time.Time{}, at(30)); a.Allowed || a.Backoff == nil {
			t.Errorf("the second Machine after the wait: got %+v, want it refused", a)
		}
		s.Failed(deployment, two, quota, at(31))
		if a := s.TakeTurn(deployment, one, time.Time{}, at(31)); a.Allowed || !a.RetryAt.Equal(at(91)) || woken["one"] != 1 {
			t.Errorf("after another failure: %+v, woken %v", a, woken)
		}
	})
	t.Run("when the probing Machine gets its server, the other waiting Machines are reconciled and may create servers", func(t *testing.T) {
		s := fresh()
		s.Failed(deployment, one, quota, noon)
		s.TakeTurn(deployment, two, time.Time{}, at(30))
		s.TakeTurn(deployment, one, time.Time{}, at(30))
		s.Ordered(deployment, two.UID, at(31))
		if !s.Succeeded(deployment, two, at(40)) || woken["one"] != 1 || !s.TakeTurn(deployment, one, time.Time{}, at(40)).Allowed {
			t.Errorf("woken %v", woken)
		}
	})
	t.Run("another Machine may create a server when the probing Machine is deleted or fails for a reason other than capacity", func(t *testing.T) {
		for _, end := range []func(*Groups){func(s *Groups) { s.Release("2") }, func(s *Groups) { s.Forget("2") }} {
			s := fresh()
			s.Failed(deployment, one, quota, noon)
			s.TakeTurn(deployment, two, time.Time{}, at(30))
			s.TakeTurn(deployment, one, time.Time{}, at(30))
			end(s)
			if woken["one"] != 1 || !s.TakeTurn(deployment, one, time.Time{}, at(31)).Allowed {
				t.Errorf("woken %v", woken)
			}
		}
	})
	t.Run("another Machine may create a server when the probe has had no result for five minutes", func(t *testing.T) {
		s := fresh()
		s.Failed(deployment, one, quota, noon)
		s.TakeTurn(deployment, two, time.Time{}, at(30))
		if a := s.TakeTurn(deployment, one, time.Time{}, at(30+int(ProbeTimeout.Seconds()))); !a.Allowed {
			t.Errorf("%+v", a)
		}
	})
	t.Run("after a failed join, only one Machine may create a server, until that Machine has joined (CAPI-26)", func(t *testing.T) {
		s := fresh()
		s.Joined(deployment, one.UID, false, 0)
		if a, b := s.TakeTurn(deployment, one, time.Time{}, noon), s.TakeTurn(deployment, two, time.Time{}, noon); !a.Allowed || b.Allowed || !b.JoinsFail {
			t.Errorf("%+v, %+v", a, b)
		}
		s.Joined(deployment, one.UID, true, 0)
		if a := s.TakeTurn(deployment, two, time.Time{}, noon); !a.Allowed || woken["two"] != 1 {
			t.Errorf("%+v, woken %v", a, woken)
		}
	})
	t.Run("after a restart of drover, no Machine may create a server while the group's status shows a back-off", func(t *testing.T) {
		known := deployment.DeepCopy()
		known.Status.Backoffs = withFailure(nil, small, quota, noon)
		if a := fresh().TakeTurn(known, one, time.Time{}, at(1)); a.Allowed || a.Backoff.Code != "QuotaExceeded" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a back-off in the group's status whose end was computed with a clock that was ahead lasts no longer than its own wait (F-68)", func(t *testing.T) {
		s, known := fresh(), deployment.DeepCopy()
		known.Status.Backoffs = withFailure(nil, small, quota, noon.Add(time.Hour))
		if a := s.TakeTurn(known, one, time.Time{}, noon); a.Allowed || !a.RetryAt.Equal(at(30)) {
			t.Errorf("got %+v, want a wait of 30 s", a)
		}
		if a := s.TakeTurn(known, one, time.Time{}, at(30)); !a.Allowed {
			t.Errorf("after the wait: got %+v, want it allowed", a)
		}
	})
	t.Run("drover forgets a group when none of its Machines has wanted a server between two sweeps (F-12)", func(t *testing.T) {
		s := fresh()
		for i := range 10_000 {
			gone := deployment.DeepCopy()
			gone.UID = types.UID(fmt.Sprint(i))
			s.TakeTurn(gone, one, time.Time{}, noon)
		}
		s.Sweep()
		s.TakeTurn(deployment, one, time.Time{}, at(3000))
		s.Sweep()
		if got := len(s.groups); got != 1 {
			t.Errorf("got %d groups, want 1", got)
		}
	})
}
