package openstack

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory"
	sim "github.com/drover-project/drover/test/openstack"
)

// leaving marks the Machines as being deleted, and requests the deletion of those servers about which the cloud gives an answer.
func (b *bench) leaving(machines []*v1alpha1.Machine) {
	b.t.Helper()
	for _, m := range machines {
		leaves(m)
		i := b.instance(m)
		if f, err := i.Observe(b.ctx); err != nil || f.Server == nil {
			continue
		}
		if err := i.DeleteServer(b.ctx); err != nil {
			b.t.Fatal(err)
		}
	}
}

// removeAll deletes the servers of these Machines and releases everything that they have.
func (b *bench) removeAll(machines []*v1alpha1.Machine) {
	b.t.Helper()
	for _, m := range machines {
		leaves(m)
		b.remove(b.synced(m))
	}
}

// neverHeld waits for two complete lists, and fails the test when the Machine sees that the mass-deletion guard holds losses.
func (b *bench) neverHeld(m *v1alpha1.Machine) {
	b.t.Helper()
	for range 40 {
		b.pass(inventory.FullPeriod / 20)
		if held := b.observe(b.synced(m)).Held; held != "" {
			b.t.Fatal(held)
		}
	}
}

func TestMassDeletionGuardHoldsNoServerWhoseDeletionDroverRequested(t *testing.T) {
	t.Parallel()
	const n, removed = 10, 6
	start := func(t *testing.T) (b *bench, holds *memoryHolds, leaving, staying []*v1alpha1.Machine) {
		b = newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		holds, _, machines := b.fleetOf(n)
		b.count(machines)
		return b, holds, machines[:removed], machines[removed:]
	}
	for _, tt := range []struct {
		name    string
		leaders int
	}{
		{"when a leader requests the deletions and dies, and the next one releases the Machines before it lists the DELETED servers (F-59)", 1},
		{"when three leaders follow each other in this way within ten minutes (F-59)", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, holds, leaving, staying := start(t)
			for part := range slices.Chunk(leaving, removed/tt.leaders) {
				b.leaving(part)
				b.stop()
				b.clock.Step(5 * time.Second)
				b.sim.Servers()
				b.listing(append(part, staying...))
				b.removeAll(part)
				b.pass(2 * time.Minute)
			}
			b.neverHeld(staying[0])
			if holds.writes != 0 {
				t.Errorf("%d writes of losses", holds.writes)
			}
		})
	}
	for _, tt := range []struct {
		name string
		then func(*bench, []*v1alpha1.Machine)
	}{
		{"under one leader", func(*bench, []*v1alpha1.Machine) {}},
		{"under two leaders", (*bench).listing},
	} {
		t.Run("when their Machines leave while a lost cell makes the guard hold them, "+tt.name+" (F-59)", func(t *testing.T) {
			b, _, leaving, staying := start(t)
			all := append(leaving, staying...)
			b.sim.LoseCell("cell1")
			b.pass(inventory.FullPeriod)
			b.eventuallyHeld(all)
			b.leaving(leaving)
			b.pass(time.Minute)
			b.sim.RestoreCells()
			b.sim.ArchiveDeleted()
			tt.then(b, all)
			b.removeAll(leaving)
			b.eventually("the hold ends", func() bool { _, held := b.count(staying); return held == 0 })
			b.removeAll(staying)
			b.nothingLeft()
		})
	}
	t.Run("when a repeated DELETE is answered by 404 while lists fail (F-59)", func(t *testing.T) {
		b, holds, leaving, staying := start(t)
		clear := b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: http.StatusServiceUnavailable})
		b.leaving(leaving)
		b.pass(time.Minute)
		b.leaving(leaving)
		b.removeAll(leaving)
		clear()
		b.neverHeld(staying[0])
		if holds.writes != 0 {
			t.Errorf("%d writes of losses", holds.writes)
		}
	})
}

func TestHoldThatBeganWithAnIncompleteListIsJudgedAgainWhenServersComeBack(t *testing.T) {
	t.Parallel()
	const n = 10
	for _, tt := range []struct {
		name string
		lost int
		held bool
	}{
		{"the guard accepts two losses once the other eight servers are listed again (F-59)", 2, false},
		{"the guard still holds five losses when the other five servers are listed again", 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
			_, servers, machines := b.fleetOf(n)
			b.count(machines)
			b.sim.LoseCell("cell1")
			b.pass(inventory.FullPeriod)
			b.eventuallyHeld(machines)
			for _, s := range servers[:tt.lost] {
				b.sim.DeleteServer(s.ID)
			}
			b.sim.RestoreCells()
			b.pass(inventory.FullPeriod)
			b.eventually("the servers are found", func() bool {
				gone, held := b.count(machines)
				return tt.held && gone == 0 && held == n || !tt.held && gone == tt.lost && held == 0
			})
		})
	}
}
