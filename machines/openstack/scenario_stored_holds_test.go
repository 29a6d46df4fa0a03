package openstack

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory"
	sim "github.com/drover-project/drover/test/openstack"
)

// memoryHolds stores the state of the mass-deletion guard in memory, instead of in an API object.
type memoryHolds struct {
	mu     sync.Mutex
	stored map[string]Held
	writes int
	err    error
}

func (h *memoryHolds) Load(_ context.Context, of HoldsKey) (Held, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stored[of.Project+" "+of.Region], h.err
}

func (h *memoryHolds) Store(_ context.Context, of HoldsKey, held Held) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	h.writes++
	h.stored[of.Project+" "+of.Region] = Held{Servers: slices.Clone(held.Servers), Lost: maps.Clone(held.Lost)}
	return nil
}

func (h *memoryHolds) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// fleetOf creates n Machines with ACTIVE servers, and restarts the driver so that it can list these Machines. It returns the
// memoryHolds of the driver, the servers and the Machines.
func (b *bench) fleetOf(n int) (*memoryHolds, []*cloud.Server, []*v1alpha1.Machine) {
	b.t.Helper()
	holds := &memoryHolds{stored: map[string]Held{}}
	b.options.Holds = holds
	_, servers, machines := b.fleet(n)
	b.listing(machines)
	return holds, servers, machines
}

// listing restarts the driver with a reader that lists these Machines.
func (b *bench) listing(machines []*v1alpha1.Machine) {
	b.t.Helper()
	var objects []ctrlclient.Object
	for _, m := range machines {
		m = m.DeepCopy()
		m.Finalizers = []string{v1alpha1.FinalizerServer}
		objects = append(objects, m)
	}
	b.withReader(newReader(b.t, objects...))
}

// lose deletes servers outside drover, including their records in Nova.
func (b *bench) lose(servers []*cloud.Server) {
	for _, s := range servers {
		b.sim.DeleteServer(s.ID)
	}
	b.clock.Step(time.Minute)
	b.sim.ArchiveDeleted()
}

// count returns how many of the Machines see their server as gone, and how many see that the guard holds losses.
func (b *bench) count(machines []*v1alpha1.Machine) (gone, held int) {
	b.t.Helper()
	for _, m := range machines {
		f := b.observe(b.synced(m))
		if f.Gone {
			gone++
		}
		if f.Held != "" {
			held++
		}
	}
	return gone, held
}

// eventuallyHeld waits until all Machines see that the guard holds losses. It fails the test if a Machine sees its server as gone
// before that, because the guard must count the losses before it accepts one.
func (b *bench) eventuallyHeld(machines []*v1alpha1.Machine) {
	b.t.Helper()
	b.eventually("all Machines see that losses are held", func() bool {
		gone, held := b.count(machines)
		if gone != 0 {
			b.t.Fatalf("%d Machines have gone servers", gone)
		}
		return held == len(machines)
	})
}

func TestStoredHoldsOfTheMassDeletionGuard(t *testing.T) {
	t.Parallel()
	const n = 10
	boot := func(c *sim.Config) { c.BootTime = 0 }
	t.Run("a stored hold is still in effect after five hours (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		_, servers, machines := b.fleetOf(n)
		b.count(machines)
		for _, s := range servers[:5] {
			b.sim.DeleteServer(s.ID)
		}
		b.eventuallyHeld(machines)
		b.pass(5 * time.Hour)
		if g, h := b.count(machines); g != 0 || h != n {
			t.Errorf("after hours %d are gone, %d Machines have held losses", g, h)
		}
	})
	t.Run("the next leader loads the stored holds (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		holds, servers, machines := b.fleetOf(n)
		b.count(machines)
		for _, s := range servers[:5] {
			b.sim.DeleteServer(s.ID)
		}
		b.eventuallyHeld(machines)
		b.eventually("the hold is stored", func() bool {
			holds.mu.Lock()
			defer holds.mu.Unlock()
			for _, h := range holds.stored {
				return len(h.Servers) == 5
			}
			return false
		})
		// Three of the five Machines with lost servers no longer exist. The guard would accept a loss of the other two servers alone.
		b.stop()
		b.sim.ArchiveDeleted()
		left := machines[3:]
		b.options.Reader = nil
		b.start()
		b.listing(left)
		b.eventuallyHeld(left)
	})
	t.Run("after a restart of drover, all missing servers are held when too many are missing (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		_, servers, machines := b.fleetOf(n)
		b.stop()
		b.lose(servers[:8])
		b.start()
		b.eventuallyHeld(machines)
		if got := b.calls("GET /servers/{id}"); got != 0 {
			t.Errorf("%d GETs of held servers", got)
		}
	})
	t.Run("after a restart of drover, each missing server is looked up once, and none is held, when few are missing (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		_, servers, machines := b.fleetOf(n)
		b.stop()
		b.lose(servers[:2])
		b.sim.ForgetCalls()
		b.start()
		b.eventually("two servers are gone", func() bool { g, h := b.count(machines); return g == 2 && h == 0 })
		if got := b.calls("GET /servers/{id}"); got != 2 {
			t.Errorf("%d GETs, want one for each server that the list lacks", got)
		}
	})
	t.Run("losses before and during a restart of drover are added up, and all lost servers are held when the sum is too large (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		_, servers, machines := b.fleetOf(n)
		b.count(machines)
		for _, s := range servers[:3] {
			b.sim.DeleteServer(s.ID)
		}
		b.eventually("three servers are gone", func() bool { g, h := b.count(machines); return g == 3 && h == 0 })
		b.stop()
		b.lose(servers[3:6])
		left := machines[3:]
		b.start()
		b.listing(left)
		b.eventuallyHeld(left)
	})
	t.Run("a lost server counts as gone only after its loss is stored (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		holds, servers, machines := b.fleetOf(n)
		b.count(machines)
		holds.fail(errors.New("the API server is away"))
		b.sim.DeleteServer(servers[0].ID)
		b.pass(2 * inventory.RestPeriod)
		if g, _ := b.count(machines); g != 0 {
			t.Error("the loss is accepted")
		}
		holds.fail(nil)
		b.eventually("the loss is accepted", func() bool { g, _ := b.count(machines); return g == 1 })
	})
	t.Run("drover's own deletions are not stored as losses (F-16)", func(t *testing.T) {
		b := newBench(t, boot)
		holds, _, machines := b.fleetOf(n)
		for _, m := range machines {
			b.remove(b.synced(m))
		}
		if holds.writes != 0 {
			t.Errorf("%d writes", holds.writes)
		}
		b.nothingLeft()
	})
}
