package openstack

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

func fullFields() fields { return seedFields().with("floatingIpPool", sim.MetaKubePool) }

// once fails the test unless the cloud has exactly one server, one port and one floating IP.
func (b *bench) once(t *testing.T) {
	t.Helper()
	left := b.sim.Leftovers()
	if len(left.Servers) != 1 || len(left.Ports) != 1 || len(left.FloatingIPs) != 1 {
		t.Errorf("not one of each: %+v", left)
	}
}

func TestWhatListsAndGETsProveAboutAServer(t *testing.T) {
	t.Parallel()
	t.Run("a server does not count as gone when the lists lack all servers of its cell (CAPI-36)", func(t *testing.T) {
		b := newBench(t)
		i, s := b.active(newMachine(t, "a", seedFields()))
		b.sim.LoseCell("cell1")
		b.pass(11 * time.Minute)
		f, err := i.Observe(b.ctx)
		if there := err == nil && f.Server != nil && f.Server.ID == s.ID; f.Gone || !there && !fault.Is(err, fault.Transient) {
			t.Fatalf("got %+v, %v", f, err)
		}
		b.sim.RestoreCells()
		b.pass(11 * time.Minute)
		if f := b.observe(i); f.Gone || f.Server == nil || f.Server.ID != s.ID {
			t.Fatalf("got %+v", f)
		}
	})
	t.Run("a server does not count as gone when the lists fail with a 500 (CAPI-36)", func(t *testing.T) {
		b := newBench(t)
		i, _ := b.active(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: http.StatusInternalServerError})
		b.pass(25 * time.Minute)
		if f := b.observe(i); f.Gone || f.Server == nil {
			t.Fatalf("got %+v", f)
		}
	})
	t.Run("a server does not count as gone when the sign-in is refused (MCM-105)", func(t *testing.T) {
		b := newBench(t)
		i, _ := b.active(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /auth/tokens", Status: http.StatusUnauthorized})
		b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: http.StatusUnauthorized})
		refused := b.calls("POST /auth/tokens")
		b.pass(25 * time.Minute)
		if f, err := i.Observe(b.ctx); f.Gone || err == nil && f.Server == nil {
			t.Fatalf("got %+v, %v", f, err)
		}
		if b.calls("POST /auth/tokens") == refused {
			t.Error("no Machine was refused")
		}
	})
	t.Run("a 404 for a GET proves that a server is gone when no list shows the server", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.stop()
		b.sim.DeleteServer(s.ID)
		b.clock.Step(time.Minute)
		b.sim.ArchiveDeleted()
		b.start()
		b.records(m, s)
		i := b.synced(m)
		if f := b.observe(i); !f.Gone || f.Server != nil {
			t.Fatalf("got %+v", f)
		}
		b.observe(i)
		if got := b.calls("GET /servers/{id}"); got != 1 {
			t.Errorf("%d GETs", got)
		}
	})
	t.Run("a row of a list with the status DELETED proves that the server is gone, without a GET (CAPI-33)", func(t *testing.T) {
		b := newBench(t)
		i, s := b.active(newMachine(t, "a", seedFields()))
		b.sim.DeleteServer(s.ID)
		b.eventually("the server is gone", func() bool { return b.observe(i).Gone })
		if got := b.calls("GET /servers/{id}"); got != 0 {
			t.Errorf("%d GETs", got)
		}
	})
	for name, c := range map[string]struct {
		do    func(b *bench, id string) bool
		state cloud.ServerState
	}{
		"a server that goes to ERROR after its creation is observed in the state Error within one poll (CAPI-33)": {func(b *bench, id string) bool { return b.sim.FailServer(id, "disk on fire") }, cloud.ServerError},
		"a server that another client shuts down is observed in the state Stopped within one poll (CAPI-33)":      {func(b *bench, id string) bool { return b.sim.StopServer(id) }, cloud.ServerStopped},
		"a server that another client deletes counts as gone within one poll (CAPI-33)":                           {func(b *bench, id string) bool { return b.sim.DeleteServer(id) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			i, s := b.active(newMachine(t, "a", seedFields()))
			b.pass(2 * state.RestPeriod) // nothing changes any more, so the driver lists once a minute
			began := b.clock.Now()
			if !c.do(b, s.ID) {
				t.Fatal("there is no such server")
			}
			b.eventually("the change is noticed", func() bool {
				f := b.observe(i)
				if c.state == "" {
					return f.Gone
				}
				return f.Server != nil && f.Server.State == c.state
			})
			if took := b.clock.Since(began); took > state.RestPeriod+5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	t.Run("before drover's first complete lists of a project, no server counts as gone and nothing is created", func(t *testing.T) {
		b := newBench(t)
		b.sim.Inject(sim.Fault{Call: "GET /servers/detail", Status: http.StatusBadGateway})
		i := b.instance(newMachine(t, "a", seedFields()))
		b.eventually("the list has failed", func() bool { return b.calls("GET /servers/detail") > 1 })
		if f, err := i.Observe(b.ctx); f.Synced || err == nil {
			t.Errorf("got %+v, %v", f, err)
		}
		if err := i.ensurePorts(b.ctx); err == nil {
			t.Error("a port was created")
		}
		b.nothingLeft()
	})
}

func TestQuotaErrorsOfTheCloud(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		quota sim.Quota
		spec  fields
		class fault.Class
		code  fault.Code
	}{
		"Nova's 403 for the quota of instances is a Quota error (MC-47, MCM-104)": {sim.Quota{Instances: 1}, seedFields(), fault.Quota, fault.CodeQuotaExceeded},
		"Nova's 403 for the quota of cores is a Quota error (MC-47, MCM-104)":     {sim.Quota{Cores: 3}, seedFields(), fault.Quota, fault.CodeQuotaExceeded},
		"Neutron's 409 for the quota of ports is a Quota error (MC-47, MCM-104)":  {sim.Quota{Ports: 1}, seedFields(), fault.Quota, fault.CodePortQuotaExceeded},
		"Neutron's 409 for the quota of floating IPs is a Quota error (MC-47)":    {sim.Quota{FloatingIPs: 1}, fullFields(), fault.Quota, fault.CodeFloatingIPQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.Quota = tc.quota })
			b.active(newMachine(t, "first", tc.spec))
			i := b.synced(newMachine(t, "a", tc.spec))
			_, err := b.make(i)
			e := fault.Of(err)
			if e == nil || e.Class != tc.class || e.Code != tc.code {
				t.Fatalf("got %+v", e)
			}
			if !strings.Contains(strings.ToLower(e.Message), "quota") {
				t.Errorf("not the cloud's text: %q", e.Message)
			}
			if released, err := i.Release(b.ctx); !released.Done || err != nil {
				t.Fatalf("got %+v, %v", released, err)
			}
			if left := b.sim.Leftovers(); len(left.Ports) != 1 || len(left.Servers) != 1 {
				t.Errorf("left %+v", left)
			}
		})
	}
}

func TestFailedServerShowsNovasTextNoValidHostWasFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.synced(newMachine(t, "a", seedFields().with("flavor", sim.MetaKubeImpossible)))
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	b.eventually("the server is in ERROR", func() bool { s := b.observe(i).Server; return s != nil && s.State == cloud.ServerError })
	f := b.observe(i).Server.Fault
	if f == nil || f.Class != fault.NoCapacity || f.Code != fault.CodeNoValidHost || !strings.Contains(f.Message, "No valid host was found") {
		t.Fatalf("MC-47, CAPI-21: got %+v", f)
	}
	b.pass(2 * time.Minute)
	b.observe(i)
	if got := b.calls("GET /servers/{id}"); got != 1 {
		t.Errorf("the list does not say why, and %d GETs asked", got)
	}
	b.remove(i)
	b.nothingLeft()
}

func TestRetryAfterPausesOneEndpointOnly(t *testing.T) {
	t.Parallel()
	t.Run("calls to Nova are still sent while calls to Neutron wait for the end of Neutron's Retry-After (CAPI-16)", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /ports", Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"30"}}, Times: 1})
		_, err := b.make(i)
		if e := fault.Of(err); e == nil || e.Class != fault.RateLimited || e.RetryAfter != 30*time.Second {
			t.Fatalf("MC-47: got %+v", e)
		}
		for range 10 {
			if err := i.ensurePorts(b.ctx); !fault.Is(err, fault.RateLimited) {
				t.Fatalf("CAPI-16: got %v", err)
			}
		}
		if got := b.calls("POST /ports"); got != 1 {
			t.Errorf("CAPI-16: %d calls while the endpoint rests", got)
		}
		if _, err := i.EnsureServer(b.ctx, nil); fault.Is(err, fault.RateLimited) {
			t.Errorf("CAPI-16: Nova rests with Neutron: %v", err)
		}
		if _, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "b", seedFields().with("flavor", "m1.tiny")))); err != nil {
			t.Errorf("CAPI-16: Nova rests with Neutron: %v", err)
		}
		b.pass(31 * time.Second)
		if _, err := b.make(i); err != nil {
			t.Fatalf("after the rest: %v", err)
		}
	})
}

func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	t.Run("tokens are renewed before they expire (MC-75, CAPI-14)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.TokenTTL = 10 * time.Minute })
		b.active(newMachine(t, "a", seedFields()))
		b.pass(20 * time.Minute)
		refused := 0
		for _, c := range b.sim.Calls() {
			if c.Status == http.StatusUnauthorized {
				refused++
			}
		}
		if got := b.calls("POST /auth/tokens"); refused != 0 || got < 2 || got > 4 {
			t.Errorf("%d tokens, %d calls refused", got, refused)
		}
	})
	t.Run("after a 401 the token is renewed once, and the refused call is repeated", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /ports", Status: http.StatusUnauthorized, Times: 1})
		if err := i.ensurePorts(b.ctx); err != nil {
			t.Fatal(err)
		}
		if got := b.calls("POST /auth/tokens"); got != 2 {
			t.Errorf("%d tokens", got)
		}
	})
	t.Run("a call fails with an Auth error when its repetition with the renewed token also gets a 401", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", seedFields()))
		b.sim.Inject(sim.Fault{Call: "POST /ports", Status: http.StatusUnauthorized})
		if err := i.ensurePorts(b.ctx); !fault.Is(err, fault.Auth) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestDefaultSecurityGroupIsCreatedOnce(t *testing.T) {
	t.Parallel()
	t.Run("one group is created for all Machines whose specs name no security group, even when drover restarts (MC-41)", func(t *testing.T) {
		b := newBench(t)
		spec := func() fields { return seedFields().with("securityGroups", nil) }
		for _, name := range []string{"a", "b", "c"} {
			i := b.synced(newMachine(t, name, spec()))
			if _, err := b.make(i); err != nil {
				t.Fatal(err)
			}
		}
		b.restart()
		b.active(newMachine(t, "d", spec()))
		if groups, rules := b.calls("POST /security-groups"), b.calls("POST /security-group-rules"); groups != 1 || rules != 2 {
			t.Errorf("MC-41: %d groups, %d rules made", groups, rules)
		}
	})
}

func TestIncompleteDefaultSecurityGroupIsCompleted(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"the rules are added after the answer to the group's creation was lost":         {Call: "POST /security-groups", Drop: true, Times: 1},
		"the missing rule is added after its creation failed":                           {Call: "POST /security-group-rules", Status: http.StatusInternalServerError, After: 1, Times: 1},
		"the missing rule is added after the answer to the creation of a rule was lost": {Call: "POST /security-group-rules", Drop: true, Times: 1},
	} {
		t.Run(name+" (MC-41)", func(t *testing.T) {
			b := newBench(t)
			i := b.synced(newMachine(t, "a", seedFields().with("securityGroups", nil)))
			b.sim.Inject(f)
			if err := i.ensurePorts(b.ctx); err == nil {
				t.Fatal("nothing went wrong")
			}
			if err := i.ensurePorts(b.ctx); err != nil {
				t.Fatal(err)
			}
			all := b.defaultGroups()
			if len(all) != 1 {
				t.Fatalf("got %d groups", len(all))
			}
			own := 0
			for _, r := range all[0].Rules {
				if r.From == all[0].ID && r.Direction == "ingress" {
					own++
				}
			}
			if own != 2 {
				t.Errorf("%d rules for its own members: %+v", own, all[0].Rules)
			}
		})
	}
}

func TestPortThatAnotherClientDeletedIsCreatedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.synced(newMachine(t, "a", seedFields()))
	if err := i.ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	somebody := i.connection.session
	err := somebody.Do(b.ctx, client.Call{Service: client.Network}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Delete(ctx, api, b.sim.Leftovers().Ports[0]).ExtractErr()
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.EnsureServer(b.ctx, nil); err == nil {
		t.Fatal("a server was created on a missing port")
	}
	if _, err := b.make(i); err != nil {
		t.Fatal(err)
	}
	if left := b.sim.Leftovers(); len(left.Ports) != 1 || len(left.Servers) != 1 {
		t.Errorf("left %+v", left)
	}
}

func TestServerWithABootVolumeAndTagsIsCreatedAndRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i, s := b.active(newMachine(t, "a", seedFields().with("rootDiskSizeGB", 30).with("rootDiskVolumeType", sim.MetaKubeVolumeType).with("tags", []string{"k=v", "plain"})))
	got, _ := b.sim.Server(s.ID)
	if len(got.Volumes) != 1 || got.Metadata["k"] != "v" || len(got.Tags) != 1 || got.Tags[0] != "plain" {
		t.Errorf("got %+v", got)
	}
	b.remove(i)
	b.nothingLeft()
}
