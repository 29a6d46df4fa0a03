package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/reach"
)

// withReach returns a bench, and the reach.Watch that records when the API server answered. The API server has just answered.
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

// passTime moves the clock by d. answers reports whether the API server answers during that time.
func passTime(b *bench, watch *reach.Watch, d time.Duration, answers bool) {
	for ; d > 0; d -= 5 * time.Second {
		b.clock.Step(5 * time.Second)
		if answers {
			watch.AnsweredControl()
		}
	}
}

func TestNothingIsCreatedWhileAnAPIServerDoesNotAnswer(t *testing.T) {
	b, watch := withReach(t)
	passTime(b, watch, time.Minute, false)
	inOrder(t, "creates no server during the outage, and shows the reason in condition Ready (MCM-79)", func(t *testing.T) {
		result := b.pass()
		if result.RequeueAfter == 0 || result.RequeueAfter > 5*time.Second {
			t.Errorf("the next reconcile is after %v", result.RequeueAfter)
		}
		passTime(b, watch, 90*time.Second, false)
		b.pass()
		ready := find(b.read(), v1alpha1.ConditionReady)
		if len(b.cloud.servers) != 0 || !strings.Contains(ready.Message, "the API server has not answered since") {
			t.Errorf("%d servers, the condition is %+v", len(b.cloud.servers), ready)
		}
	})
	inOrder(t, "creates no server in the first 25 s after the outage, so that the informer caches can catch up (MCM-79)", func(t *testing.T) {
		watch.AnsweredControl()
		passTime(b, watch, 25*time.Second, true)
		if b.pass(); len(b.cloud.servers) != 0 {
			t.Error("a server was created")
		}
	})
	inOrder(t, "creates the server 30 s after the outage (MCM-79)", func(t *testing.T) {
		passTime(b, watch, 5*time.Second, true)
		if b.pass(); len(b.cloud.servers) != 1 {
			t.Errorf("%d servers", len(b.cloud.servers))
		}
	})
}

func TestAnOutageOfTheAPIServerExtendsTheJoinTimeout(t *testing.T) {
	b, watch := withReach(t)
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	passTime(b, watch, 5*time.Minute, true)
	passTime(b, watch, time.Hour, false)
	inOrder(t, "drover keeps a Machine without a Node during the outage, even when the join timeout has passed (MCM-79)", func(t *testing.T) {
		if b.pass(); b.read().DeletionTimestamp != nil {
			t.Fatal("the server was given up")
		}
	})
	watch.AnsweredControl()
	passTime(b, watch, 30*time.Second+10*time.Minute-5*time.Second, true)
	inOrder(t, "drover keeps the Machine without a Node until a full join timeout has passed after the outage has ended (MCM-51, MCM-79)", func(t *testing.T) {
		result := b.pass()
		if b.read().DeletionTimestamp != nil {
			t.Fatal("the server was given up")
		}
		if result.RequeueAfter != 5*time.Second {
			t.Errorf("the next reconcile is after %v", result.RequeueAfter)
		}
	})
	inOrder(t, "drover deletes the Machine without a Node when a full join timeout has passed after the outage has ended (MC-57)", func(t *testing.T) {
		passTime(b, watch, 5*time.Second, true)
		if b.pass(); b.read().DeletionTimestamp == nil {
			t.Error("the server was not given up")
		}
	})
}
