package openstack

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	sim "github.com/drover-project/drover/test/openstack"
)

// hasItsPort fails the test unless the server has exactly one port, and every floating IP of the cloud is on this server.
func (b *bench) hasItsPort(server string) {
	b.t.Helper()
	s, _ := b.sim.Server(server)
	if len(s.Ports) != 1 {
		b.t.Errorf("server %s has ports %v, want one", server, s.Ports)
	}
	if addresses := len(b.sim.Leftovers().FloatingIPs); len(s.Floating) != addresses {
		b.t.Errorf("server %s has floating IPs %v, and there are %d", server, s.Floating, addresses)
	}
}

// working retries the create of the server until the Machine has an ACTIVE server, and returns that server.
func (b *bench) working(i cloud.Instance) *cloud.Server {
	b.t.Helper()
	var s *cloud.Server
	b.eventually("the server is ACTIVE", func() bool {
		f, err := i.Observe(b.ctx)
		if err != nil {
			return false
		}
		if s = f.Server; s == nil {
			_, _ = b.make(i)
		}
		return s != nil && s.State == cloud.ServerActive
	})
	return s
}

// onePort returns the ID of the only port, and fails the test unless exactly one port exists.
func (b *bench) onePort() string {
	b.t.Helper()
	left := b.sim.Leftovers()
	if len(left.Ports) != 1 {
		b.t.Fatalf("there are ports %v, want one", left.Ports)
	}
	return left.Ports[0]
}

func TestServerCreateThatTheCloudNeverReceived(t *testing.T) {
	t.Parallel()
	t.Run("the create is repeated on a new port, and the floating IP moves to that port (F-21, F-27)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", fullFields()))
		b.sim.Inject(sim.Fault{Call: "POST /servers", Refuse: true, Times: 1})
		if _, err := b.make(i); !fault.Is(err, fault.Transient) {
			t.Fatalf("got %v, want Transient", err)
		}
		before := b.onePort()
		s := b.working(i)
		if after := b.onePort(); after == before {
			t.Error("the server was created on the port that the first create names")
		}
		b.hasItsPort(s.ID)
		if got := b.calls("POST /floatingips"); got != 1 {
			t.Errorf("%d floating IPs were created, want 1", got)
		}
		b.remove(i)
		b.nothingLeft()
	})
}

func TestServerOfThePreviousLeaderThatAppearsBeforeTheNewLeaderReplacesItsPort(t *testing.T) {
	t.Parallel()
	t.Run("the new leader finds the server through the port although no list shows the server, and creates no other server (F-21)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		road := b.leftOnItsWay(m)
		b.sim.SetListLag(time.Hour)
		b.start()
		i := b.synced(m)
		close(road.let)
		if code := <-road.arrived; code != http.StatusAccepted {
			t.Fatalf("the late create was answered %d", code)
		}
		b.clock.Step(2 * time.Second)
		s := b.working(i)
		if posts, deletions := b.calls("POST /servers"), b.calls("DELETE /ports/{id}"); posts != 1 || deletions != 0 {
			t.Errorf("%d creates and %d ports deleted, want only the previous leader's create", posts, deletions)
		}
		b.hasItsPort(s.ID)
	})
}

func TestFailureWhileDroverReplacesAPortAndThenCreatesAServerOnTheNewPort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lost sim.Fault
	}{
		{"when the look-up of the old port fails", sim.Fault{Call: "GET /ports/{id}", Status: 503, Times: 1}},
		{"when Neutron's answer to the deletion of the old port is lost", sim.Fault{Call: "DELETE /ports/{id}", Drop: true, Times: 1}},
		{"when the request to delete the old port never reaches Neutron", sim.Fault{Call: "DELETE /ports/{id}", Refuse: true, Times: 1}},
		{"when Neutron's answer to the creation of the new port is lost", sim.Fault{Call: "POST /ports", Drop: true, Times: 1}},
		{"when Neutron answers the creation of the new port with 503", sim.Fault{Call: "POST /ports", Status: 503, Times: 1}},
		{"when Neutron's answer to the move of the floating IP is lost", sim.Fault{Call: "PUT /floatingips/{id}", Drop: true, Times: 1}},
		{"when Nova's answer to the creation of the server is lost", sim.Fault{Call: "POST /servers", Drop: true, Times: 1}},
		{"when the request to create the server never reaches Nova", sim.Fault{Call: "POST /servers", Refuse: true, Times: 1}},
	} {
		for _, crash := range []bool{false, true} {
			name := tt.name
			if crash {
				name += " and drover then crashes"
			}
			t.Run("one server with one port remains "+name+" (F-21, F-27)", func(t *testing.T) {
				b := newBench(t)
				m := newMachine(t, "a", fullFields())
				i := b.synced(m)
				if err := errors.Join(i.ensurePorts(b.ctx), i.ensureFloatingIP(b.ctx)); err != nil {
					t.Fatal(err)
				}
				b.restart()
				i = b.synced(m)
				b.sim.Inject(tt.lost)
				if _, err := b.make(i); err == nil || fault.Of(err).Code == fault.CodeUnsettled {
					t.Fatalf("got %v, want the call to fail", err)
				}
				if crash {
					b.restart()
					i = b.synced(m)
				}
				s := b.working(i)
				b.once(t)
				b.hasItsPort(s.ID)
				if got := b.calls("POST /floatingips"); got != 1 {
					t.Errorf("%d floating IPs were created, want 1", got)
				}
				b.remove(i)
				b.nothingLeft()
			})
		}
	}
}

func TestPortOfThePreviousLeader(t *testing.T) {
	t.Parallel()
	t.Run("drover replaces a port without a server in three calls, because a late create of a server may still name the old port (F-21)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		if err := b.synced(m).ensurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		before := b.onePort()
		b.restart()
		i := b.synced(m)
		b.sim.ForgetCalls()
		s := b.working(i)
		if b.onePort() == before {
			t.Error("a server was created on the previous leader's port")
		}
		for call, want := range map[string]int{
			"GET /ports/{id}": 1, "DELETE /ports/{id}": 1, "POST /ports": 1, "POST /servers": 1,
		} {
			if got := b.calls(call); got != want {
				t.Errorf("%d × %s, want %d", got, call, want)
			}
		}
		b.hasItsPort(s.ID)
	})
	t.Run("a port that the previous leader created stays while its server exists", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", fullFields())
		b.active(m)
		before := b.onePort()
		b.restart()
		if _, err := b.make(b.synced(m)); err != nil {
			t.Fatal(err)
		}
		if b.onePort() != before {
			t.Error("the port of a server that works was replaced")
		}
	})
}

func TestRefusedServerCreate(t *testing.T) {
	t.Parallel()
	t.Run("a refused create is repeated on the same port", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusForbidden, Times: 1})
		if _, err := b.make(i); err == nil {
			t.Fatal("the create was not refused")
		}
		before := b.onePort()
		b.working(i)
		if b.onePort() != before {
			t.Error("the port was replaced although no server can have been created on it")
		}
	})
	t.Run("a port that Neutron shows on a server that is gone is replaced, and is not left behind (report 49)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", fullFields()))
		if err := i.Prepare(b.ctx); err != nil {
			t.Fatal(err)
		}
		port := b.onePort()
		b.raw(client.Network, "PUT", "ports/"+port, map[string]any{"port": map[string]any{"device_id": "11111111-2222-3333-4444-555555555555", "device_owner": "compute:nova"}}, nil)
		s := b.working(i)
		b.hasItsPort(s.ID)
		b.pass(10 * time.Minute)
		if b.onePort() == port {
			t.Error("the server is on the port that was in use")
		}
		if n := b.calls("POST /servers"); n > 4 {
			t.Errorf("%d requests for a server", n)
		}
		b.remove(i)
		b.nothingLeft()
	})
}
