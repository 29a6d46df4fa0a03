package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

// oldLease is a leader lease that was not renewed in time.
type oldLease struct{}

func (oldLease) Fresh(time.Time) bool { return false }

func TestNoWriteIsSentToTheCloudWhenDroverHasNotRenewedItsLeaseInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	b.active(m)
	other := newMachine(t, "b", seedFields())
	b.options.Lease = oldLease{}
	b.restart()
	b.sim.ForgetCalls()
	i := b.synced(other)
	for what, err := range map[string]error{"a port": i.ensurePorts(b.ctx), "a deletion": b.synced(m).DeleteServer(b.ctx)} {
		if !fault.Is(err, fault.RateLimited) || fault.Of(err).RetryAfter == 0 || client.UnknownOutcome(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, call := range b.sim.Calls() {
		if call.Method != http.MethodGet && call.Service != string(client.Identity) {
			t.Errorf("it was sent: %s", call.Name())
		}
	}
}

func TestSeveralServersOfAMachineWithoutProviderID(t *testing.T) {
	t.Parallel()
	t.Run("the older of two servers is the Machine's server, and the newer one is a duplicate (MCM-40)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		m := newMachine(t, "a", fullFields())
		i, s := b.active(m)
		b.pass(2 * time.Second)
		late := b.left(m, b.plan(m))
		b.eventually("both servers are known", func() bool { return len(b.observe(i).Duplicates) > 0 })
		f := b.observe(i)
		if f.Server.ID != s.ID || len(f.Duplicates) != 1 || f.Duplicates[0].ID != late {
			t.Errorf("got %+v, want %s and %s", f, s.ID, late)
		}
		if left := b.sim.Leftovers(); len(recordOf(f.Server).PortIDs) == 0 || !slices.Contains(left.Ports, recordOf(f.Server).PortIDs[0]) || !slices.Contains(left.FloatingIPs, recordOf(f.Server).FloatingIPID) {
			t.Errorf("ports %v, floating IP %q; there are %+v", recordOf(f.Server).PortIDs, recordOf(f.Server).FloatingIPID, left)
		}
	})
}

// slowRoad is a RoundTripper that holds the first POST to a certain path back until the channel let is closed. The path is
// recognised by its end (field what). slowRoad sends the POST even if the caller's context was cancelled meanwhile.
type slowRoad struct {
	next      http.RoundTripper
	what      string
	sent, let chan struct{}
	arrived   chan int
}

func (r *slowRoad) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, r.what) {
		return r.next.RoundTrip(req)
	}
	close(r.sent)
	<-r.let
	resp, err := r.next.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
	if err != nil {
		r.arrived <- 0
		return nil, err
	}
	r.arrived <- resp.StatusCode
	return resp, nil
}

func TestDefaultSecurityGroupOfTwoReplicas(t *testing.T) {
	t.Parallel()
	t.Run("one default group remains when two replicas of drover create the group at the same time (MC-41)", func(t *testing.T) {
		b := newBench(t)
		road := &slowRoad{next: http.DefaultTransport, what: "/security-groups", sent: make(chan struct{}), let: make(chan struct{}), arrived: make(chan int, 1)}
		b.options.HTTP = road
		b.restart()
		spec := seedFields().with("securityGroups", nil)
		one := b.synced(newMachine(t, "a", spec))
		made := make(chan error, 1)
		go func() { made <- one.ensurePorts(b.ctx) }()
		<-road.sent
		t.Cleanup(b.stop)
		b.options.HTTP = nil
		b.start()
		other := b.synced(newMachine(t, "b", spec))
		if err := other.ensurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.clock.Step(time.Second)
		close(road.let)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		all := b.defaultGroups()
		if len(all) != 1 || b.calls("POST /security-groups") != 2 || len(all[0].Rules) < 2 {
			t.Errorf("got %+v; %d were made", all, b.calls("POST /security-groups"))
		}
		var list struct {
			Ports []struct {
				Groups []string `json:"security_groups"`
			}
		}
		b.raw(client.Network, "GET", "ports", nil, &list)
		for _, p := range list.Ports {
			if len(p.Groups) != 1 || p.Groups[0] != all[0].ID {
				t.Errorf("a port is in %v, not in %s", p.Groups, all[0].ID)
			}
		}
		if len(list.Ports) != 2 {
			t.Errorf("%d ports", len(list.Ports))
		}
	})
}

// defaultGroup is drover's security group for specs that name none, as Neutron lists it.
type defaultGroup struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Rules []struct {
		Direction string `json:"direction"`
		From      string `json:"remote_group_id"`
	} `json:"security_group_rules"`
}

// defaultGroups returns all security groups with the name of drover's default group.
func (b *bench) defaultGroups() []defaultGroup {
	b.t.Helper()
	var all struct {
		Groups []defaultGroup `json:"security_groups"`
	}
	b.raw(client.Network, "GET", "security-groups", nil, &all)
	return slices.DeleteFunc(all.Groups, func(g defaultGroup) bool { return g.Name != "kubernetes-v1" })
}

// A create of a leader that has lost its lease may be carried out long after the next leader has listed everything. The create
// names a port that the next leader has replaced. So the cloud refuses the create, and the next leader's server keeps its own port.
func TestServerCreateOfThePreviousLeaderThatArrivesLate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// when receives the new leader's server, or nil, and reports whether the create arrives now.
		when func(*cloud.Server) bool
	}{
		{"when it arrives before the new leader has created a server", func(*cloud.Server) bool { return true }},
		{"when it arrives while the new leader's server is being built", func(s *cloud.Server) bool { return s != nil }},
		{"when it arrives after the new leader's server became ACTIVE", func(s *cloud.Server) bool { return s != nil && s.State == cloud.ServerActive }},
	} {
		t.Run("makes no second server "+tt.name+" (MCM-109, F-21)", func(t *testing.T) {
			b := newBench(t)
			m := newMachine(t, "a", seedFields())
			road := b.leftOnItsWay(m)
			b.start()
			i := b.synced(m)
			code := 0
			var s *cloud.Server
			b.eventually("the new leader has a server that works", func() bool {
				if s = b.observe(i).Server; code == 0 && tt.when(s) {
					close(road.let)
					code = <-road.arrived
				}
				if s == nil {
					_, _ = b.make(i)
				}
				return s != nil && s.State == cloud.ServerActive && code != 0
			})
			m.Spec.ProviderID = ptr.To(s.ProviderID)
			i = b.synced(m)
			b.pass(10 * time.Minute)
			if left := b.sim.Leftovers(); len(left.Servers) != 1 || left.Servers[0] != s.ID || len(left.Ports) != 1 {
				t.Errorf("the late create was answered %d; want only server %s, got %+v", code, s.ID, left)
			}
			b.hasItsPort(s.ID)
			b.remove(i)
			b.nothingLeft()
		})
	}
}

// leftOnItsWay makes the present leader send the create of the Machine's server. The create arrives in the cloud only when the test
// closes the channel let of the returned slowRoad. The test itself must start the next leader.
func (b *bench) leftOnItsWay(m *v1alpha1.Machine) *slowRoad {
	b.t.Helper()
	road := &slowRoad{next: http.DefaultTransport, what: "/servers", sent: make(chan struct{}), let: make(chan struct{}), arrived: make(chan int, 1)}
	b.options.HTTP = road
	b.restart()
	predecessor := b.synced(m)
	if err := predecessor.ensurePorts(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	// The result is dropped, as when the leader's process has ended.
	go func() { _, _ = predecessor.EnsureServer(b.ctx, nil) }()
	<-road.sent
	b.t.Cleanup(b.stop)
	b.options.HTTP = nil
	return road
}

// The list of ports succeeds at once, and the list of servers only after some failures. So the list of ports is too old to show
// whether a create was still in progress.
func TestListOfPortsIsRepeatedWhenItIsOlderThanTheListOfServers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	road := b.leftOnItsWay(m)
	b.sim.SetListLag(time.Hour)
	b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: 503, Times: 4})
	b.sim.ForgetCalls()
	b.start()
	i := b.instance(m)
	b.eventually("ports are listed, servers are not", func() bool { return b.calls("GET /servers/detail") > 0 })
	close(road.let)
	if code := <-road.arrived; code != http.StatusAccepted {
		t.Fatalf("the late create was answered %d", code)
	}
	i = b.synced(m)
	b.eventually("the server is found by its port", func() bool {
		s := b.observe(i).Server
		if s == nil {
			_, _ = b.make(i)
		}
		return s != nil
	})
	if got := b.calls("POST /servers"); got != 1 {
		t.Errorf("%d creates of a server, want only that of the previous leader", got)
	}
}

func TestPortThatThePreviousLeaderCreatesAfterTheNewLeaderHasCreatedTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	road := &slowRoad{next: http.DefaultTransport, what: "/ports", sent: make(chan struct{}), let: make(chan struct{}), arrived: make(chan int, 1)}
	b.options.HTTP = road
	b.restart()
	m := newMachine(t, "a", fullFields())
	predecessor := b.synced(m)
	go func() { _ = predecessor.ensurePorts(b.ctx) }()
	<-road.sent
	t.Cleanup(b.stop)
	b.options.HTTP = nil
	b.start()
	i, s := b.active(m)
	m.Spec.ProviderID = ptr.To(s.ProviderID)
	before := b.observe(i).Server
	close(road.let)
	if code := <-road.arrived; code != http.StatusCreated {
		t.Fatalf("the late create was answered %d", code)
	}
	lists := b.calls("GET /ports")
	b.pass(state.AddressPeriod + 2*time.Minute)
	b.restart()
	after := b.observe(b.synced(m)).Server
	if b.calls("GET /ports") < lists+2 || !slices.Equal(recordOf(after).PortIDs, recordOf(before).PortIDs) || !slices.Equal(after.Addresses, before.Addresses) {
		t.Errorf("it had %v with %v, and has %v with %v", recordOf(before).PortIDs, before.Addresses, recordOf(after).PortIDs, after.Addresses)
	}
	b.remove(b.synced(m))
	b.restart()
	b.synced(newMachine(t, "b", fullFields()))
	late := b.tagged()
	if len(late) != 1 || late[0].Machine != m.UID || late[0].Kind != cloud.ResourcePort {
		t.Fatalf("the late port is not among the tagged resources: %v", late)
	}
	t.Run("the server does not get the late port, which is deleted as an orphan once the Machine is gone (MCM-84)", func(t *testing.T) {
		if err := b.cloud.Collect(b.ctx, late[0]); err != nil {
			t.Fatal(err)
		}
		if left := b.sim.Leftovers(); len(left.Ports) > 0 || len(b.tagged()) > 0 {
			t.Errorf("left are %+v; known are %v", left, b.tagged())
		}
	})
}

func TestNewLeaderUsesAFloatingIPThatThePreviousLeaderCreatesAfterTheNewLeadersFirstList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	road := &slowRoad{next: http.DefaultTransport, what: "/floatingips", sent: make(chan struct{}), let: make(chan struct{}), arrived: make(chan int, 1)}
	b.options.HTTP = road
	b.restart()
	m := newMachine(t, "a", fullFields())
	predecessor := b.synced(m)
	if err := predecessor.ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	go func() { _ = predecessor.ensureFloatingIP(b.ctx) }()
	<-road.sent
	t.Cleanup(b.stop)
	b.options.HTTP = nil
	b.start()
	i := b.synced(m)
	close(road.let)
	if code := <-road.arrived; code != http.StatusCreated {
		t.Fatalf("the late create was answered %d", code)
	}
	began := b.clock.Now()
	b.eventually("the server is created", func() bool { _, err := b.make(i); return err == nil })
	if took := b.clock.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	b.once(t)
}

// slowReply is a RoundTripper that delays the answer to the create of a server until the channel let is closed.
type slowReply struct{ done, let chan struct{} }

func (r *slowReply) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/servers") {
		close(r.done)
		<-r.let
	}
	return resp, err
}

func TestEnsureServerFailsWhenTheNewServerIsDeletedBeforeNovasAnswerArrives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	road := &slowReply{done: make(chan struct{}), let: make(chan struct{})}
	b.options.HTTP = road
	b.restart()
	m := newMachine(t, "a", seedFields())
	i := b.synced(m)
	if err := i.ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		server *cloud.Server
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		s, err := i.EnsureServer(b.ctx, nil)
		answers <- answer{s, err}
	}()
	<-road.done
	id := b.sim.Leftovers().Servers[0]
	b.raw(client.Compute, "DELETE", "servers/"+id, nil, nil)
	b.sim.ForgetCalls()
	b.eventually("a list has shown that the server is gone", func() bool { return b.calls("GET /servers/detail") > 1 })
	close(road.let)
	if got := <-answers; got.server != nil || !fault.Is(got.err, fault.Transient) {
		t.Errorf("got %+v and %v, want an error that affects no other Machine of the group", got.server, got.err)
	}
}
