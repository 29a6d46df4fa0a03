package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/reach"
)

// withReach returns a bench whose Reconciler asks whether the API server answers; it has answered just now.
func withReach(t *testing.T) (*bench, *reach.Watch) {
	t.Helper()
	b := newBench(t, deployed)
	watch := reach.New(reach.Options{Clock: b.clock})
	watch.AnsweredControl()
	o := b.options
	o.Reach = watch
	b.start(o)
	return b, watch
}

// passTime lets time go by, during which the API server answers or does not.
func passTime(b *bench, watch *reach.Watch, d time.Duration, answers bool) {
	for ; d > 0; d -= 5 * time.Second {
		b.clock.Step(5 * time.Second)
		if answers {
			watch.AnsweredControl()
		}
	}
}

func TestNothingIsMadeWhileAnAPIServerCannotBeReached(t *testing.T) {
	b, watch := withReach(t)
	passTime(b, watch, time.Minute, false)
	t.Run("no server is made, and the Machine says why with its next write (MCM-79)", func(t *testing.T) {
		result := b.pass()
		if result.RequeueAfter == 0 || result.RequeueAfter > 5*time.Second {
			t.Errorf("it looks again after %v", result.RequeueAfter)
		}
		passTime(b, watch, 90*time.Second, false)
		b.pass()
		ready := find(b.read(), v1alpha1.ConditionReady)
		if len(b.cloud.servers) != 0 || !strings.Contains(ready.Message, "the API server has not answered since") {
			t.Errorf("%d servers, the condition is %+v", len(b.cloud.servers), ready)
		}
	})
	t.Run("nor before the caches have had their time (MCM-79)", func(t *testing.T) {
		watch.AnsweredControl()
		passTime(b, watch, 25*time.Second, true)
		if b.pass(); len(b.cloud.servers) != 0 {
			t.Error("a server was made")
		}
	})
	t.Run("then it is made (MCM-79)", func(t *testing.T) {
		passTime(b, watch, 5*time.Second, true)
		if b.pass(); len(b.cloud.servers) != 1 {
			t.Errorf("%d servers", len(b.cloud.servers))
		}
	})
}

func TestAServerIsNotGivenUpBecauseOfAnOutage(t *testing.T) {
	b, watch := withReach(t)
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	passTime(b, watch, 5*time.Minute, true)
	passTime(b, watch, time.Hour, false)
	t.Run("while the API server cannot be reached (MCM-79)", func(t *testing.T) {
		if b.pass(); b.read().DeletionTimestamp != nil {
			t.Fatal("it was given up")
		}
	})
	watch.AnsweredControl()
	passTime(b, watch, 30*time.Second+10*time.Minute-5*time.Second, true)
	t.Run("until the time to join is over, counted from when it could be reached again (MCM-51, MCM-79)", func(t *testing.T) {
		result := b.pass()
		if b.read().DeletionTimestamp != nil {
			t.Fatal("it was given up")
		}
		if result.RequeueAfter != 5*time.Second {
			t.Errorf("it looks again after %v", result.RequeueAfter)
		}
	})
	t.Run("then it is (MC-57)", func(t *testing.T) {
		passTime(b, watch, 5*time.Second, true)
		if b.pass(); b.read().DeletionTimestamp == nil {
			t.Error("it was not given up")
		}
	})
}
