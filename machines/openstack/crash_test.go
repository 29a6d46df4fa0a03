package openstack

import (
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestACrashAfterAnyStepMakesNothingTwice(t *testing.T) {
	for _, after := range []string{"EnsurePorts", "EnsureFloatingIP", "EnsureServer", "all"} {
		t.Run("CAPI-18 MC-43 after "+after, func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", fullFields())
			i := b.synced(m)
			for _, step := range []struct {
				name string
				do   func() error
			}{
				{"EnsurePorts", func() error { return i.EnsurePorts(b.ctx) }},
				{"EnsureFloatingIP", func() error { return i.EnsureFloatingIP(b.ctx) }},
				{"EnsureServer", func() error { _, err := i.EnsureServer(b.ctx, nil); return err }},
			} {
				if err := step.do(); err != nil {
					t.Fatal(err)
				}
				if step.name == after {
					break
				}
			}
			b.restart()
			b.sim.ForgetCalls()
			i = b.synced(m)
			b.eventually("made", func() bool { _, err := b.make(i); return err == nil })
			i, _ = b.active(m)
			b.once(t)
			if got := b.calls("GET /ports") + b.calls("GET /floatingips"); got != 2 {
				t.Errorf("finding again cost %d lists, want one of each", got)
			}
			b.remove(i)
			b.nothingLeft()
		})
	}
}

func TestACrashBesideListsThatLagMakesNothingTwice(t *testing.T) {
	b := newBench(t)
	m := newMachine(t, "a", fullFields())
	i := b.synced(m)
	b.sim.SetListLag(5 * time.Second)
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.restart()
	i = b.synced(m)
	b.eventually("CAPI-18 the server is found", func() bool {
		_, err := b.make(i)
		return err == nil && b.observe(i).Server != nil
	})
	if got := b.calls("POST /servers"); got != 1 {
		t.Errorf("%d servers were made", got)
	}
	b.once(t)
}

func TestAPortWithoutAServerIsLookedAtForAWhileAfterAStart(t *testing.T) {
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	if err := b.synced(m).EnsurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.restart()
	i := b.synced(m)
	if _, err := b.make(i); !fault.Is(err, fault.Transient) {
		t.Fatalf("CAPI-19: a server may be on its way: %v", err)
	}
	began := b.clock.Now()
	b.eventually("made", func() bool { _, err := b.make(i); return err == nil })
	if took := b.clock.Since(began); took < suspectTime || took > time.Minute {
		t.Errorf("it took %s", took)
	}
	b.active(m)
}

func TestALostReplyMakesNothingTwice(t *testing.T) {
	for _, c := range []string{"POST /ports", "POST /floatingips", "POST /servers"} {
		t.Run("CAPI-19 "+c, func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", fullFields())
			i := b.synced(m)
			b.sim.Inject(sim.Fault{Call: c, Drop: true, Times: 1})
			if _, err := b.make(i); !fault.Is(err, fault.Transient) {
				t.Fatalf("a lost reply is Transient, got %v", err)
			}
			if f := b.observe(i); c != "POST /servers" && !f.Leftovers {
				t.Error("what may have been made is a leftover")
			}
			b.eventually("made", func() bool { _, err := b.make(i); return err == nil })
			b.once(t)
			if got := b.calls(c); got != 1 {
				t.Errorf("%d × %s", got, c)
			}
			b.remove(i)
			b.nothingLeft()
		})
	}
}

func TestACreateThatNeverArrivedIsMadeAgainOnceSettled(t *testing.T) {
	b := newBench(t)
	i := b.synced(newMachine(t, "a", fullFields()))
	b.sim.Inject(sim.Fault{Call: "POST /servers", Refuse: true, Times: 1})
	if _, err := b.make(i); !fault.Is(err, fault.Transient) {
		t.Fatalf("got %v", err)
	}
	failed := b.clock.Now()
	b.eventually("made", func() bool { _, err := b.make(i); return err == nil })
	if waited := b.clock.Since(failed); waited < settleTime {
		t.Errorf("CAPI-19: made again after %s, before it was settled", waited)
	}
	b.once(t)
}

func TestDeletionAfterALostReplyWaitsForWhatMayTurnUp(t *testing.T) {
	b := newBench(t)
	i := b.synced(newMachine(t, "a", fullFields()))
	b.sim.Inject(sim.Fault{Call: "POST /floatingips", Drop: true, Times: 1})
	if _, err := b.make(i); err == nil {
		t.Fatal("the reply was not lost")
	}
	b.remove(i)
	b.nothingLeft()
}
