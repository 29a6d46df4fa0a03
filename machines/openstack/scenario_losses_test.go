package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

// fleet creates n Machines of a set, with ACTIVE servers.
func (b *bench) fleet(n int) (servers []*cloud.Server, machines []*v1alpha1.Machine) {
	b.t.Helper()
	for k := range n {
		m := newMachine(b.t, fmt.Sprintf("m%d", k), seedFields())
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.MachineSetKind.Kind, Name: "set", UID: "set", Controller: new(true)}}
		_, s := b.active(m)
		b.records(m, s)
		b.synced(m)
		servers, machines = append(servers, s), append(machines, m)
	}
	return servers, machines
}

// joined shows in the status of Machines that their Nodes are Ready.
func (b *bench) joined(machines []*v1alpha1.Machine) {
	for _, m := range machines {
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}}
	}
}

// leave requests the deletion of the servers of Machines that are being deleted, as far as the cloud answers.
func (b *bench) leave(machines []*v1alpha1.Machine) {
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

// end deletes the servers of these Machines and releases everything that they have.
func (b *bench) end(machines []*v1alpha1.Machine) {
	b.t.Helper()
	for _, m := range machines {
		leaves(m)
		b.remove(b.synced(m))
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

// lost returns how many Machines have lost their servers while these are too many, by the metric.
func (b *bench) lost() (n int) {
	for _, p := range b.cloud.connections.projects() {
		p.With(func(s *state.Project) { n += s.Statistics(b.clock.Now()).Held })
	}
	return n
}

// eventuallyHidden waits until the metric counts n lost servers.
func (b *bench) eventuallyHidden(machines []*v1alpha1.Machine, n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d servers are hidden", n), func() bool {
		for _, m := range machines {
			b.instance(m) // as the reconciles after a restart do
		}
		return b.lost() == n
	})
}

// neverHeld waits for two complete lists, and fails the test when the losses of the project are held.
func (b *bench) neverHeld(machines []*v1alpha1.Machine) {
	b.t.Helper()
	for range 40 {
		b.pass(state.FullPeriod / 20)
		if _, held := b.count(machines); held != 0 || b.lost() != 0 {
			b.t.Fatalf("%d losses are held, %d of these Machines", b.lost(), held)
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
		if f := b.observe(b.instance(machines[0])); !strings.Contains(f.Held, "more than 3 Machines") {
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
		b.pass(state.FullPeriod)
		b.eventuallyHidden(machines, n)
		b.eventuallyCounts(machines, 0, 0)
		if got := b.calls("GET /servers/{id}"); got != 0 {
			t.Errorf("%d GETs of hidden servers", got)
		}
		b.sim.RestoreCells()
		b.pass(state.FullPeriod)
		b.eventuallyHidden(machines, 0)
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
			b.pass(state.FullPeriod)
			b.eventuallyHidden(machines, n)
			b.lose(servers[:tt.lost])
			b.sim.RestoreCells()
			b.pass(state.FullPeriod)
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
	t.Run("while their Machines still exist (F-59)", func(t *testing.T) {
		b, leaving, staying := start(t)
		b.leave(leaving)
		b.eventually("the servers are gone", func() bool { gone, _ := b.count(leaving); return gone == removed })
		b.neverHeld(staying)
	})
	t.Run("when their Machines leave while a failed cell hides all servers, also under another leader (F-59)", func(t *testing.T) {
		b, leaving, staying := start(t)
		b.sim.LoseCell("cell1")
		b.pass(state.FullPeriod)
		b.eventuallyHidden(slices.Concat(leaving, staying), n)
		b.leave(leaving)
		b.pass(time.Minute)
		b.sim.RestoreCells()
		b.sim.ArchiveDeleted()
		b.restart()
		b.end(leaving)
		b.eventuallyCounts(staying, 0, 0)
		b.eventuallyHidden(staying, 0)
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
			m.Spec.ProviderID = nil
			b.synced(m)
		}
		b.lose(servers)
		b.eventuallyCounts(machines, n, 0)
		b.eventuallyHidden(machines, 0)
	})
}
