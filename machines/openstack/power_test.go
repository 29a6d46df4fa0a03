package openstack

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

const actions = "POST /servers/{id}/action"

// shutDown returns a bench, a Machine's instance and the ID of its server, which was shut down outside drover. A list has shown this.
// power is the time that the simulated cloud needs to start the server.
func shutDown(t *testing.T, power time.Duration) (*bench, *instance, string) {
	t.Helper()
	b := newBench(t, func(c *sim.Config) { c.PowerTime = power })
	i, s := b.active(newMachine(t, "a", seedFields()))
	b.sim.StopServer(s.ID)
	b.becomes(i, cloud.ServerStopped)
	b.sim.ForgetCalls()
	return b, i, s.ID
}

// becomes waits until a list shows the server in this state.
func (b *bench) becomes(i cloud.Instance, state cloud.ServerState) {
	b.t.Helper()
	b.eventually("the server is "+string(state), func() bool {
		s := b.observe(i).Server
		return s != nil && s.State == state
	})
}

func TestStartServer(t *testing.T) {
	t.Parallel()
	t.Run("starts a stopped server with one call, and the list shows the server as ACTIVE within seconds", func(t *testing.T) {
		b, i, _ := shutDown(t, 5*time.Second)
		if err := i.StartServer(b.ctx); err != nil {
			t.Fatal(err)
		}
		began := b.clock.Now()
		b.becomes(i, cloud.ServerStarting)
		b.becomes(i, cloud.ServerActive)
		if took := b.clock.Since(began); took > 5*time.Second+3*state.FastPeriod || b.calls(actions) != 1 || b.calls("GET /servers/{id}") != 0 {
			t.Errorf("it took %v, %d actions, %d GETs", took, b.calls(actions), b.calls("GET /servers/{id}"))
		}
	})
	t.Run("returns nil for a running server that the list still shows as stopped", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.ChangeServer(id, "active", "")
		if err := i.StartServer(b.ctx); err != nil || b.observe(i).Server.State != cloud.ServerActive {
			t.Errorf("got %v, the server is %s", err, b.observe(i).Server.State)
		}
	})
	t.Run("returns nil for a server that another client is starting", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.ChangeServer(id, "stopped", "powering-on")
		if err := i.StartServer(b.ctx); err != nil || b.observe(i).Server.State != cloud.ServerStarting {
			t.Errorf("got %v, the server is %s", err, b.observe(i).Server.State)
		}
	})
	t.Run("returns a NotFound error for a deleted server that the list still shows", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.DeleteServer(id)
		if err := i.StartServer(b.ctx); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("returns a NotFound error without a call when there is no server", func(t *testing.T) {
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
		"returns a Conflict error when Nova answers 409 and the server is still shut down":                       {http.StatusConflict, fault.Conflict},
		"returns an Auth error when Nova answers 403":                                                            {http.StatusForbidden, fault.Auth},
		"returns an Invalid error when Nova answers 400":                                                         {http.StatusBadRequest, fault.Invalid},
		"returns a Transient error when Nova answers 503, because the server may be starting nevertheless":       {http.StatusServiceUnavailable, fault.Transient},
		"returns a RateLimited error when Nova answers 429, because Nova has then not started the server (F-26)": {http.StatusTooManyRequests, fault.RateLimited},
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
	t.Run("returns the server's current state instead of the state in the last list", func(t *testing.T) {
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
	t.Run("returns an error and no server when the cloud does not answer", func(t *testing.T) {
		b, i, _ := shutDown(t, 0)
		b.sim.Inject(sim.Fault{Call: "GET /servers/{id}", Status: http.StatusBadGateway})
		if f, err := i.ObserveNow(b.ctx); !fault.Is(err, fault.Transient) || f.Server != nil {
			t.Errorf("got %+v, %v", f.Server, err)
		}
	})
	t.Run("returns no server when the server was deleted after the last list", func(t *testing.T) {
		b, i, id := shutDown(t, 0)
		b.sim.DeleteServer(id)
		if f, err := i.ObserveNow(b.ctx); err != nil || f.Server != nil {
			t.Errorf("got %+v, %v", f.Server, err)
		}
	})
}

func TestAnObservationOfAServerNamesTheOperationThatAnotherClientStartedOnIt(t *testing.T) {
	t.Parallel()
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
