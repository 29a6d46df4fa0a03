package openstack

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory"
	sim "github.com/drover-project/drover/test/openstack"
)

const actions = "POST /servers/{id}/action"

// shutDown returns a Machine's side of a cloud in which its server was shut down behind drover's back, as drover has seen.
func shutDown(t *testing.T, power time.Duration) (*bench, *instance, string) {
	t.Helper()
	b := newBench(t, func(c *sim.Config) { c.PowerTime = power })
	i, s := b.active(newMachine(t, "a", seedFields()))
	b.sim.StopServer(s.ID)
	b.becomes(i, cloud.ServerStopped)
	b.sim.ForgetCalls()
	return b, i, s.ID
}

// becomes waits until the server has a state in the shared list.
func (b *bench) becomes(i cloud.Instance, state cloud.ServerState) {
	b.t.Helper()
	b.eventually("the server is "+string(state), func() bool {
		s := b.observe(i).Server
		return s != nil && s.State == state
	})
}

func TestStartServer(t *testing.T) {
	t.Run("a server that is shut down becomes ACTIVE with one call, and the list shows it within seconds", func(t *testing.T) {
		b, i, _ := shutDown(t, 5*time.Second)
		if err := i.StartServer(b.ctx); err != nil {
			t.Fatal(err)
		}
		began := b.clock.Now()
		b.becomes(i, cloud.ServerStarting)
		b.becomes(i, cloud.ServerActive)
		if took := b.clock.Since(began); took > 5*time.Second+3*inventory.FastPeriod || b.calls(actions) != 1 || b.calls("GET /servers/{id}") != 0 {
			t.Errorf("it took %v, %d actions, %d GETs", took, b.calls(actions), b.calls("GET /servers/{id}"))
		}
	})
	t.Run("one that runs already, which the list does not show yet, is no error", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.ChangeServer(id, "active", "")
		if err := i.StartServer(b.ctx); err != nil || b.observe(i).Server.State != cloud.ServerActive {
			t.Errorf("got %v, the server is %s", err, b.observe(i).Server.State)
		}
	})
	t.Run("one that is being started by somebody else is none either", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.ChangeServer(id, "stopped", "powering-on")
		if err := i.StartServer(b.ctx); err != nil || b.observe(i).Server.State != cloud.ServerStarting {
			t.Errorf("got %v, the server is %s", err, b.observe(i).Server.State)
		}
	})
	t.Run("one that is gone, which the list does not show yet, is NotFound in Nova's words", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.DeleteServer(id)
		if err := i.StartServer(b.ctx); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("one that is not there is NotFound, and no call", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		if err := i.StartServer(b.ctx); !fault.Is(err, fault.NotFound) || b.calls(actions) != 0 {
			t.Errorf("got %v, %d calls", err, b.calls(actions))
		}
	})
	for name, tt := range map[string]struct {
		status int
		class  fault.Class
	}{
		"409 of a server that is still shut down is a refusal": {http.StatusConflict, fault.Conflict},
		"403 is one, too":                {http.StatusForbidden, fault.Auth},
		"400 is one, too":                {http.StatusBadRequest, fault.Invalid},
		"503 may have been carried out":  {http.StatusServiceUnavailable, fault.Transient},
		"429 was not carried out (F-26)": {http.StatusTooManyRequests, fault.RateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			b, i, _ := shutDown(t, 0)
			b.sim.Inject(sim.Fault{Call: actions, Status: tt.status})
			if err := i.StartServer(b.ctx); !fault.Is(err, tt.class) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestObserveNow(t *testing.T) {
	t.Run("it shows the server as it is now, whatever the list has", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.ChangeServer(id, "active", "")
		if s := b.observe(i).Server; s.State != cloud.ServerStopped {
			t.Fatalf("the list shows it %s already", s.State)
		}
		f, err := i.ObserveNow(b.ctx)
		if err != nil || f.Server.State != cloud.ServerActive || b.calls("GET /servers/{id}") != 1 {
			t.Errorf("got %+v, %v, after %d GETs", f.Server, err, b.calls("GET /servers/{id}"))
		}
	})
	t.Run("without an answer it shows nothing", func(t *testing.T) {
		b, i, _ := shutDown(t, 0)
		b.sim.Inject(sim.Fault{Call: "GET /servers/{id}", Status: http.StatusBadGateway})
		if f, err := i.ObserveNow(b.ctx); !fault.Is(err, fault.Transient) || f.Server != nil {
			t.Errorf("got %+v, %v", f.Server, err)
		}
	})
	t.Run("a server that is gone meanwhile is gone", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.DeleteServer(id)
		if f, err := i.ObserveNow(b.ctx); err != nil || f.Server != nil {
			t.Errorf("got %+v, %v", f.Server, err)
		}
	})
}

func TestSomebodyWhoChangesAServerIsNamed(t *testing.T) {
	b := newBench(t)
	i, s := b.active(newMachine(t, "a", seedFields()))
	for _, tt := range []struct{ state, task, word string }{
		{"active", "resize_prep", "RESIZE"}, {"resized", "", "VERIFY_RESIZE"}, {"rescued", "", "RESCUE"}, {"active", "migrating", "MIGRATING"},
		{"active", "image_snapshot", "image_snapshot"}, {"paused", "", ""},
	} {
		b.sim.ChangeServer(s.ID, tt.state, tt.task)
		f, err := i.ObserveNow(b.ctx)
		if err != nil || f.Server.Busy != tt.word {
			t.Errorf("%s %s: got %q, %v", tt.state, tt.task, f.Server.Busy, err)
		}
	}
}
