package openstack

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestNothingIsCreatedTwiceAfterACrash(t *testing.T) {
	t.Parallel()
	// lists is how many list requests for ports and floating IPs drover makes after the restart. It always lists each of the two
	// once. When a port has no server, it lists ports a second time; if it also replaces that port and knows no floating IP, it
	// lists floating IPs a second time.
	for _, step := range []struct {
		name  string
		lists int
	}{{"creating the ports", 4}, {"creating the floating IP", 3}, {"creating the server", 2}} {
		t.Run("no resource is created twice when drover crashes right after "+step.name+" (CAPI-18, MC-43)", func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", fullFields())
			i := b.synced(m)
			for _, s := range []struct {
				name string
				do   func() error
			}{
				{"creating the ports", func() error { return i.ensurePorts(b.ctx) }},
				{"creating the floating IP", func() error { return i.ensureFloatingIP(b.ctx) }},
				{"creating the server", func() error { _, err := i.EnsureServer(b.ctx, nil); return err }},
			} {
				if err := s.do(); err != nil {
					t.Fatal(err)
				}
				if s.name == step.name {
					break
				}
			}
			b.restart()
			b.sim.ForgetCalls()
			i = b.synced(m)
			b.eventually("the server is created", func() bool { _, err := b.make(i); return err == nil })
			i, _ = b.active(m)
			b.once(t)
			if got := b.calls("GET /ports") + b.calls("GET /floatingips"); got != step.lists {
				t.Errorf("finding again cost %d lists, want %d", got, step.lists)
			}
			b.remove(i)
			b.nothingLeft()
		})
	}
}

func TestNothingIsCreatedTwiceWhenDroverCrashesBeforeTheListsShowTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", fullFields())
	i := b.synced(m)
	b.sim.SetListLag(5 * time.Second)
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.restart()
	i = b.synced(m)
	b.eventually("the server is found (CAPI-18)", func() bool {
		found := b.observe(i).Server != nil
		_, err := b.make(i)
		return err == nil && found
	})
	if got := b.calls("POST /servers"); got != 1 {
		t.Errorf("%d servers were created", got)
	}
	b.once(t)
}

func TestPortWithoutAServerIsLookedUpTwiceAfterARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, other := newMachine(t, "a", seedFields()), newMachine(t, "b", seedFields())
	if err := b.synced(m).ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.restart()
	began := b.clock.Now()
	i := b.instance(m)
	if _, err := b.make(b.synced(other)); err != nil {
		t.Errorf("one without a port need not wait: %v", err)
	}
	if f := b.observe(i); f.Synced {
		t.Error("CAPI-19: a server may still appear")
	}
	if _, err := b.make(i); !fault.Is(err, fault.Transient) {
		t.Errorf("CAPI-19: a server may still appear: %v", err)
	}
	b.synced(m)
	if _, err := b.make(i); err != nil {
		t.Errorf("looked at twice: %v", err)
	}
	if took := b.clock.Since(began); took < state.SecondLookAfter || took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	b.active(m)
}

func TestNewLeaderReconcilesAMachineAfterTheSecondLookBecauseItsServerMayNowBeCreated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	if err := b.synced(m).ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.stop()
	c, err := New(b.options)
	if err != nil {
		t.Fatal(err)
	}
	b.cloud = c
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Start(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	b.stop = func() { cancel(); <-done }
	i := b.instance(m)
	heard := 0
	b.eventually("the Machine is reconciled after the first list and after the second look", func() bool {
		select {
		case <-c.Changes():
			heard++
		default:
		}
		return heard == 2
	})
	if _, err := b.make(i); err != nil {
		t.Errorf("the Machine was reconciled, and its server cannot be created: %v", err)
	}
}

func TestSecondLookUpOfAPortIsRepeatedAfterAFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	if err := b.synced(m).ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.sim.ForgetCalls()
	b.sim.Inject(sim.Fault{Call: "GET /ports", After: 1, Status: 500, Times: 2})
	if _, err := b.make(b.synced(m)); err != nil {
		t.Error(err)
	}
	if got := b.calls("GET /ports"); got != 4 {
		t.Errorf("%d looks at ports, want the first, two that fail and one that does not", got)
	}
}

func TestServerThatNoListShowsIsFoundByItsPort(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", fullFields())
	i := b.synced(m)
	b.sim.SetListLag(time.Hour)
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.restart()
	began := b.clock.Now()
	i = b.synced(m)
	b.eventually("the server is found by its port (CAPI-18)", func() bool {
		found := b.observe(i).Server != nil
		_, err := b.make(i)
		return err == nil && found
	})
	if took := b.clock.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	b.once(t)
}

func TestNothingIsCreatedTwiceAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"POST /ports", "POST /floatingips", "POST /servers"} {
		t.Run("only one resource is created when the answer to "+c+" is lost (CAPI-19)", func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", fullFields())
			i := b.synced(m)
			b.sim.Inject(sim.Fault{Call: c, Drop: true, Times: 1})
			if _, err := b.make(i); !fault.Is(err, fault.Transient) {
				t.Fatalf("got %v, want Transient for a lost answer", err)
			}
			if f := b.observe(i); c != "POST /servers" && !f.Leftovers {
				t.Error("a resource that may have been created is not a leftover")
			}
			b.eventually("the server is created", func() bool { _, err := b.make(i); return err == nil })
			b.once(t)
			if got := b.calls(c); got != 1 {
				t.Errorf("%d × %s", got, c)
			}
			b.remove(i)
			b.nothingLeft()
		})
	}
}

func TestServerCreateThatNovaNeverAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// before is called before the create, for the Machine that the create is for.
		before func(b *bench, i *instance)
	}{
		{"is repeated after two minutes (CAPI-19)", func(*bench, *instance) {}},
		{"is repeated only after two minutes when an earlier server of the Machine failed and was deleted (F-65)", (*bench).failsOnce},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			i := b.synced(newMachine(t, "a", fullFields()))
			tt.before(b, i)
			b.sim.Inject(sim.Fault{Call: "POST /servers", Refuse: true, Times: 1})
			if _, err := b.make(i); !fault.Is(err, fault.Transient) {
				t.Fatalf("got %v", err)
			}
			failed := b.clock.Now()
			b.eventually("the server is created", func() bool { _, err := b.make(i); return err == nil })
			if waited := b.clock.Since(failed); waited < state.SettleTime {
				t.Errorf("created again after %s, before it was resolved", waited)
			}
			b.once(t)
		})
	}
	t.Run("leaves no server when its Machine is deleted before a list shows the server, although an earlier server failed (F-65)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", fullFields())
		i := b.synced(m)
		b.failsOnce(i)
		b.sim.SetListLag(30 * time.Second)
		b.sim.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 1})
		if _, err := b.make(i); !fault.Is(err, fault.Transient) {
			t.Fatalf("got %v", err)
		}
		leaves(m)
		b.remove(b.instance(m))
		b.pass(time.Minute)
		b.nothingLeft()
	})
}

// failsOnce creates a server of the Machine that fails, and deletes it as the Machine controller does before it creates another one.
func (b *bench) failsOnce(i *instance) {
	b.t.Helper()
	s, err := b.make(i)
	if err != nil {
		b.t.Fatal(err)
	}
	b.sim.FailServer(s.ID, "No valid host was found. ")
	b.eventually("the failed server is gone", func() bool {
		f := b.observe(i)
		if f.Server != nil && f.Server.State == cloud.ServerError {
			_ = i.DeleteFailed(b.ctx)
		}
		return f.Server == nil
	})
	b.pass(time.Minute)
}

func TestFloatingIPWhoseCreationGotNoAnswerIsDeletedWithItsMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.synced(newMachine(t, "a", fullFields()))
	b.sim.Inject(sim.Fault{Call: "POST /floatingips", Drop: true, Times: 1})
	if _, err := b.make(i); err == nil {
		t.Fatal("the reply was not lost")
	}
	b.remove(i)
	b.nothingLeft()
}
