package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory"
	sim "github.com/drover-project/drover/test/openstack"
)

// cluster is a reader that lists the Machines of the test, as the informer cache does.
type cluster struct {
	ctrlclient.Reader
	mu       sync.Mutex
	machines []*v1alpha1.Machine
}

func (c *cluster) List(ctx context.Context, list ctrlclient.ObjectList, options ...ctrlclient.ListOption) error {
	all, ok := list.(*v1alpha1.MachineList)
	if !ok {
		return c.Reader.List(ctx, list, options...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		all.Items = append(all.Items, *m.DeepCopy())
	}
	return nil
}

// change changes a Machine as the API server does.
func (c *cluster) change(m *v1alpha1.Machine, change func(*v1alpha1.Machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(m)
}

// ended removes a Machine.
func (c *cluster) ended(m *v1alpha1.Machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines = slices.DeleteFunc(c.machines, func(other *v1alpha1.Machine) bool { return other == m })
}

// fleet creates n Machines with ACTIVE servers, which the driver's reader lists from then on.
func (b *bench) fleet(n int) (servers []*cloud.Server, machines []*v1alpha1.Machine) {
	b.t.Helper()
	for k := range n {
		m := newMachine(b.t, fmt.Sprintf("m%d", k), seedFields())
		_, s := b.active(m)
		b.records(m, s)
		servers, machines = append(servers, s), append(machines, m)
	}
	b.withReader(&cluster{Reader: newReader(b.t), machines: slices.Clone(machines)})
	for _, m := range machines {
		b.synced(m)
	}
	return servers, machines
}

func (b *bench) cluster() *cluster { return b.options.Reader.(*cluster) }

// joined shows in a Machine's status that its Node is Ready.
func (b *bench) joined(machines []*v1alpha1.Machine) {
	for _, m := range machines {
		b.cluster().change(m, func(m *v1alpha1.Machine) {
			m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
			m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}}
		})
	}
}

// askedToLeave marks Machines as being deleted.
func (b *bench) askedToLeave(machines []*v1alpha1.Machine) {
	for _, m := range machines {
		b.cluster().change(m, leaves)
	}
}

// leave requests the deletion of the servers of Machines that are being deleted, as far as the cloud answers.
func (b *bench) leave(machines []*v1alpha1.Machine) {
	b.t.Helper()
	b.askedToLeave(machines)
	for _, m := range machines {
		i := b.instance(m)
		if f, err := i.Observe(b.ctx); err != nil || f.Server == nil {
			continue
		}
		if err := i.DeleteServer(b.ctx); err != nil {
			b.t.Fatal(err)
		}
	}
}

// end deletes the servers of these Machines, releases everything that they have, and removes the Machines.
func (b *bench) end(machines []*v1alpha1.Machine) {
	b.t.Helper()
	b.askedToLeave(machines)
	for _, m := range machines {
		b.remove(b.synced(m))
		b.cluster().ended(m)
	}
}

// lose deletes servers outside drover.
func (b *bench) lose(servers []*cloud.Server) {
	for _, s := range servers {
		b.sim.DeleteServer(s.ID)
	}
}

// archive removes the rows of deleted servers from Nova.
func (b *bench) archive() {
	b.clock.Step(time.Minute)
	b.sim.ArchiveDeleted()
}

// count returns how many of the Machines have lost their servers for certain, and how many see that too many are lost at once.
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

func (b *bench) eventuallyCounts(machines []*v1alpha1.Machine, gone, held int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d servers are gone and %d losses are held", gone, held), func() bool {
		g, h := b.count(machines)
		return g == gone && h == held
	})
}

// eventuallyHidden waits until the metric counts n lost servers, while none is proven gone.
func (b *bench) eventuallyHidden(n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d servers are hidden", n), func() bool {
		lost := 0
		for _, p := range b.cloud.connections.projects() {
			lost += p.Statistics().Held
		}
		return lost == n
	})
}

// neverHeld waits for two complete lists, and fails the test when the loss of one of the Machines is held.
func (b *bench) neverHeld(machines []*v1alpha1.Machine) {
	b.t.Helper()
	for range 40 {
		b.pass(inventory.FullPeriod / 20)
		if _, held := b.count(machines); held != 0 {
			b.t.Fatalf("%d losses are held", held)
		}
	}
}

func bootAtOnce(c *sim.Config) { c.BootTime = 0 }

func TestMachinesThatLoseTheirServersAtOnce(t *testing.T) {
	t.Parallel()
	const n = 10
	t.Run("three losses of ten are not held", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		servers, machines := b.fleet(n)
		b.lose(servers[:3])
		b.eventuallyCounts(machines, 3, 0)
	})
	t.Run("five losses of ten are held, and only for the five Machines that have lost their servers", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		servers, machines := b.fleet(n)
		b.lose(servers[:5])
		b.eventuallyCounts(machines, 5, 5)
		if f := b.observe(b.instance(machines[0])); !strings.Contains(f.Held, "5 of the 10 Machines") {
			t.Errorf("the text is %q", f.Held)
		}
		b.pass(5 * time.Hour)
		b.eventuallyCounts(machines, 5, 5)
	})
	t.Run("a Machine that a person deletes is not held, and the others are not held any more once they are few (F-59)", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		servers, machines := b.fleet(n)
		b.lose(servers[:5])
		b.eventuallyCounts(machines, 5, 5)
		b.end(machines[:2])
		b.eventuallyCounts(machines[2:], 3, 0)
	})
	t.Run("losses before and during a restart count together", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		servers, machines := b.fleet(n)
		b.lose(servers[:2])
		b.eventuallyCounts(machines, 2, 0)
		b.stop()
		b.lose(servers[2:8])
		b.archive()
		b.start()
		b.eventuallyCounts(machines, 8, 8)
	})
	t.Run("after a restart, each missing server is looked up once, when few are missing (F-16)", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		servers, machines := b.fleet(n)
		b.joined(machines)
		b.stop()
		b.lose(servers[:2])
		b.archive()
		b.sim.ForgetCalls()
		b.start()
		b.eventuallyCounts(machines, 2, 0)
		if got := b.calls("GET /servers/{id}"); got != 2 {
			t.Errorf("%d GETs, want one for each server that the list lacks", got)
		}
	})
	t.Run("while a failed cell hides all servers, no server of a Ready Node is looked up, and the servers are found when the cell is back", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		_, machines := b.fleet(n)
		b.joined(machines)
		b.sim.LoseCell("cell1")
		b.pass(inventory.FullPeriod)
		b.eventuallyHidden(n)
		b.eventuallyCounts(machines, 0, 0)
		if got := b.calls("GET /servers/{id}"); got != 0 {
			t.Errorf("%d GETs of hidden servers", got)
		}
		b.sim.RestoreCells()
		b.pass(inventory.FullPeriod)
		b.eventuallyHidden(0)
		b.eventuallyCounts(machines, 0, 0)
	})
	for _, tt := range []struct {
		lost, held int
	}{{2, 0}, {5, 5}} {
		t.Run(fmt.Sprintf("of %d servers that are deleted while a failed cell hides all ten, %d losses are held when the cell is back (F-59)", tt.lost, tt.held), func(t *testing.T) {
			b := newBench(t, bootAtOnce)
			servers, machines := b.fleet(n)
			b.joined(machines)
			b.sim.LoseCell("cell1")
			b.pass(inventory.FullPeriod)
			b.eventuallyHidden(n)
			b.lose(servers[:tt.lost])
			b.sim.RestoreCells()
			b.pass(inventory.FullPeriod)
			b.eventuallyCounts(machines, tt.lost, tt.held)
		})
	}
}

func TestNoLossIsHeldOfAServerWhoseDeletionDroverRequested(t *testing.T) {
	t.Parallel()
	const n, removed = 10, 6
	start := func(t *testing.T) (b *bench, leaving, staying []*v1alpha1.Machine) {
		b = newBench(t, bootAtOnce)
		_, machines := b.fleet(n)
		b.joined(machines)
		return b, machines[:removed], machines[removed:]
	}
	for _, tt := range []struct {
		name    string
		leaders int
	}{
		{"when a leader requests the deletions and dies, and the next one releases the Machines before it lists the DELETED servers (F-59)", 1},
		{"when three leaders follow each other in this way within ten minutes (F-59)", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, leaving, staying := start(t)
			for part := range slices.Chunk(leaving, removed/tt.leaders) {
				b.leave(part)
				b.stop()
				b.clock.Step(5 * time.Second)
				b.sim.Servers()
				b.start()
				b.end(part)
				b.pass(2 * time.Minute)
			}
			b.neverHeld(staying)
		})
	}
	t.Run("when their Machines leave while a failed cell hides all servers, also under another leader (F-59)", func(t *testing.T) {
		b, leaving, staying := start(t)
		b.sim.LoseCell("cell1")
		b.pass(inventory.FullPeriod)
		b.eventuallyHidden(n)
		b.leave(leaving)
		b.pass(time.Minute)
		b.sim.RestoreCells()
		b.sim.ArchiveDeleted()
		b.restart()
		b.end(leaving)
		b.eventuallyCounts(staying, 0, 0)
		b.end(staying)
		b.nothingLeft()
	})
	t.Run("when a repeated DELETE is answered by 404 while lists fail (F-59)", func(t *testing.T) {
		b, leaving, staying := start(t)
		restore := b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: http.StatusServiceUnavailable})
		b.leave(leaving)
		b.pass(time.Minute)
		b.leave(leaving)
		b.end(leaving)
		restore()
		b.neverHeld(staying)
	})
	t.Run("when drover crashes while it replaces ten failed servers", func(t *testing.T) {
		b := newBench(t, bootAtOnce)
		servers, machines := b.fleet(n)
		for _, s := range servers {
			b.sim.FailServer(s.ID, "No valid host was found. ")
		}
		b.eventually("the servers are in ERROR", func() bool { return b.observe(b.instance(machines[n-1])).Server.State == cloud.ServerError })
		b.restart()
		for _, m := range machines {
			b.cluster().change(m, func(m *v1alpha1.Machine) { m.Spec.ProviderID = nil })
			b.synced(m)
		}
		b.lose(servers)
		b.eventuallyCounts(machines, n, 0)
	})
}
