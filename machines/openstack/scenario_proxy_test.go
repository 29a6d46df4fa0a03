package openstack

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestAnswersOfAProxyDoNotCountAsAnswersOfTheCloud(t *testing.T) {
	t.Parallel()
	t.Run("a proxy's 404 page does not prove that a server is gone (F-19)", func(t *testing.T) {
		b := newDirectBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		m.Spec.ProviderID = &s.ProviderID
		b.sim.LoseCell("cell1")
		b.restart()
		b.sim.Inject(sim.ProxyPage("GET /servers/{id}", http.StatusNotFound))
		i := b.instance(m)
		b.pass(time.Minute)
		if f, err := i.Observe(b.ctx); err == nil && f.Gone {
			t.Errorf("the server counts as gone: %+v", f)
		}
	})
	t.Run("a proxy's 404 page does not prove that a port or a floating IP is deleted (F-19)", func(t *testing.T) {
		b := newDirectBench(t)
		i, _ := b.active(newMachine(t, "a", fullFields()))
		if err := i.DeleteServer(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.eventually("the server is gone", func() bool { return b.observe(i).Server == nil })
		for _, call := range []string{"DELETE /ports/{id}", "DELETE /floatingips/{id}"} {
			b.sim.Inject(sim.ProxyPage(call, http.StatusNotFound))
		}
		released, err := i.Release(b.ctx)
		if released.Done || fault.Of(err) == nil || fault.Of(err).Code != fault.CodeForeignAnswer {
			t.Errorf("done %v with %v, want an error of code ForeignAnswer", released.Done, err)
		}
		if left := b.sim.Leftovers(); len(left.Ports) == 0 {
			t.Errorf("left %+v, want the port", left)
		}
		b.sim.ClearFaults()
		b.remove(i)
		b.nothingLeft()
	})
	t.Run("the error for a proxy's 502 page names the page's content type and does not show its text (F-9)", func(t *testing.T) {
		b := newDirectBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.ProxyPage("POST /ports", http.StatusBadGateway))
		err := i.ensurePorts(b.ctx)
		if err == nil || strings.Contains(err.Error(), "default backend") || !strings.Contains(err.Error(), "the answer (text/html) is not one of OpenStack's") {
			t.Errorf("got %v", err)
		}
	})
}
