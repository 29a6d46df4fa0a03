package openstack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory"
	sim "github.com/drover-project/drover/test/openstack"
)

// fleet creates n Machines with ACTIVE servers.
func (b *bench) fleet(n int) (all []cloud.Instance, servers []*cloud.Server, machines []*v1alpha1.Machine) {
	b.t.Helper()
	for k := range n {
		m := newMachine(b.t, fmt.Sprintf("m%d", k), seedFields())
		_, s := b.active(m)
		b.records(m, s)
		all, servers, machines = append(all, b.instance(m)), append(servers, s), append(machines, m)
	}
	return all, servers, machines
}

func TestMassDeletionGuard(t *testing.T) {
	t.Parallel()
	const n = 10
	boot := func(c *sim.Config) { c.BootTime = 0 }
	gone := func(b *bench, all []cloud.Instance) (gone, held int) {
		for _, i := range all {
			f := b.observe(i)
			if f.Gone {
				gone++
			}
			if f.Held != "" {
				held++
			}
		}
		return gone, held
	}
	t.Run("accepts the loss of three servers out of ten", func(t *testing.T) {
		b := newBench(t, boot)
		all, servers, _ := b.fleet(n)
		for _, s := range servers[:3] {
			b.sim.DeleteServer(s.ID)
		}
		b.eventually("the servers are gone", func() bool { g, h := gone(b, all); return g == 3 && h == 0 })
	})
	t.Run("holds the loss of five servers out of ten, and releases none of their ports until an operator confirms the loss", func(t *testing.T) {
		b := newBench(t, boot)
		told := make(chan bool, 1)
		word := false
		b.options.Collect = func(context.Context) (bool, error) {
			select {
			case word = <-told:
			default:
			}
			return word, nil
		}
		b.restart()
		all, servers, _ := b.fleet(n)
		for _, s := range servers[:5] {
			b.sim.DeleteServer(s.ID)
		}
		b.eventually("the losses are held", func() bool { g, h := gone(b, all); return g == 0 && h == n })
		if f := b.observe(all[0]); !strings.Contains(f.Held, "5 of 10 servers") || !strings.Contains(f.Held, v1alpha1.AnnotationCollect) {
			t.Errorf("not readable for users: %q", f.Held)
		}
		b.pass(30 * time.Minute)
		if released, err := all[0].Release(b.ctx); released.Done || err != nil {
			t.Errorf("released: %v, %v", released.Done, err)
		}
		if got := len(b.sim.Leftovers().Ports); got != n {
			t.Errorf("%d ports are left", got)
		}
		told <- true
		b.eventually("the losses are accepted", func() bool { g, h := gone(b, all); return g == 5 && h == 0 })
		b.remove(all[0])
	})
	t.Run("holds no server that drover itself deleted", func(t *testing.T) {
		b := newBench(t, boot)
		all, _, _ := b.fleet(n)
		for _, i := range all {
			b.remove(i)
		}
		b.nothingLeft()
	})
	t.Run("holds no server when drover crashes while it deletes ten servers", func(t *testing.T) {
		b := newBench(t, boot)
		all, _, machines := b.fleet(n)
		for _, i := range all {
			if err := i.DeleteServer(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		b.stop()
		b.clock.Step(time.Minute)
		b.sim.Servers()
		b.start()
		for _, m := range machines {
			m.DeletionTimestamp = ptr.To(metav1.Now())
			b.remove(b.synced(m))
		}
		b.nothingLeft()
	})
	t.Run("holds no server when drover crashes while it replaces ten failed servers", func(t *testing.T) {
		b := newBench(t, boot)
		all, servers, machines := b.fleet(n)
		for _, s := range servers {
			b.sim.FailServer(s.ID, "No valid host was found. ")
		}
		b.eventually("the servers are in ERROR", func() bool { s := b.observe(all[n-1]).Server; return s.State == cloud.ServerError })
		b.restart()
		for k, m := range machines {
			m.Spec.ProviderID = nil
			all[k] = b.synced(m)
			b.sim.DeleteServer(servers[k].ID)
		}
		b.eventually("the servers are gone", func() bool { g, h := gone(b, all); return g == n && h == 0 })
	})
	t.Run("holds the losses when eight servers out of ten were deleted while drover was down", func(t *testing.T) {
		b := newBench(t, boot)
		_, servers, machines := b.fleet(n)
		b.stop()
		for _, s := range servers[:8] {
			b.sim.DeleteServer(s.ID)
		}
		b.clock.Step(time.Minute)
		b.sim.ArchiveDeleted()
		b.start()
		var all []cloud.Instance
		for _, m := range machines {
			all = append(all, b.synced(m))
		}
		gone(b, all)
		if g, h := gone(b, all); g > 3 || h != n {
			t.Errorf("%d are gone, %d Machines have held losses", g, h)
		}
	})
	t.Run("ends the hold when the lists show the servers of a failed Nova cell again", func(t *testing.T) {
		b := newBench(t, boot)
		all, _, _ := b.fleet(n)
		b.sim.LoseCell("cell1")
		b.pass(inventory.FullPeriod)
		b.eventually("the losses are held", func() bool { _, h := gone(b, all); return h == n })
		if got := b.calls("GET /servers/{id}"); got != 0 {
			t.Errorf("%d GETs of held servers", got)
		}
		b.sim.RestoreCells()
		b.pass(inventory.FullPeriod)
		b.eventually("the servers are found", func() bool { g, h := gone(b, all); return g+h == 0 })
	})
}
