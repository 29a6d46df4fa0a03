package openstack_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/test/openstack"
)

func TestFaultsInjectedIntoTheSimulatedCloud(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	create := func(ctx context.Context) error {
		_, err := ports.Create(ctx, c.network, ports.CreateOpts{NetworkID: k.network}).Extract()
		return err
	}
	made := func() int { return len(cloud.Leftovers().Ports) }

	t.Run("a fault with After 1 and Times 1 affects only the second call", func(t *testing.T) {
		before := made()
		cloud.Inject(openstack.Fault{Call: "POST /ports", After: 1, Times: 1, Status: 503, Header: http.Header{"Retry-After": {"7"}}})
		if err := create(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := create(t.Context())
		refused(t, err, 503)
		var answer gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &answer) || answer.ResponseHeader.Get("Retry-After") != "7" {
			t.Errorf("answer %+v", answer)
		}
		if err := create(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := made() - before; n != 2 {
			t.Errorf("%d ports were made", n)
		}
	})
	t.Run("a call is carried out when a fault drops its response", func(t *testing.T) {
		before := made()
		clear := cloud.Inject(openstack.Fault{Call: "POST /ports", Drop: true})
		if err := create(t.Context()); err == nil || c.code(err) != 0 {
			t.Errorf("got %v, want a cut connection", err)
		}
		clear()
		if n := made() - before; n != 1 {
			t.Errorf("%d ports were made", n)
		}
	})
	t.Run("a call is not carried out when a fault refuses its connection", func(t *testing.T) {
		before := made()
		clear := cloud.Inject(openstack.Fault{Service: "network", Refuse: true})
		if err := create(t.Context()); err == nil || c.code(err) != 0 {
			t.Errorf("got %v, want a cut connection", err)
		}
		clear()
		if n := made() - before; n != 0 {
			t.Errorf("%d ports were made", n)
		}
	})
	t.Run("a call that hangs because of a fault ends at the client's deadline", func(t *testing.T) {
		cloud.Inject(openstack.Fault{Call: "* /ports", Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := create(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cloud.ClearFaults()
		if err := create(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a fault for one kind of call does not affect other calls", func(t *testing.T) {
		defer cloud.Inject(openstack.Fault{Call: "DELETE *", Status: 500})()
		if err := create(t.Context()); err != nil {
			t.Error(err)
		}
		refused(t, ports.Delete(t.Context(), c.network, cloud.Leftovers().Ports[0]).ExtractErr(), 500)
	})
}

func (c clients) code(err error) int {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return answer.Actual
	}
	return 0
}

func TestInTheSimulatedCloudCallsBeyondARateLimitAreRefusedWithRetryAfter(t *testing.T) {
	fake := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cloud := start(t, openstack.Config{Clock: fake})
	c := login(t, cloud, nil)
	cloud.SetRateLimit("compute", openstack.RateLimit{PerSecond: 0.5, Burst: 2})
	list := func() error {
		_, err := servers.List(c.compute, nil).AllPages(t.Context())
		return err
	}
	for range 2 {
		if err := list(); err != nil {
			t.Fatal(err)
		}
	}
	err := list()
	refused(t, err, 429)
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) || answer.ResponseHeader.Get("Retry-After") != "2" {
		t.Errorf("answer %+v", answer)
	}
	if _, err := ports.List(c.network, nil).AllPages(t.Context()); err != nil {
		t.Errorf("another service is not limited: %v", err)
	}
	fake.Step(2 * time.Second)
	if err := list(); err != nil {
		t.Error(err)
	}
	cloud.SetRateLimit("compute", openstack.RateLimit{})
	for range 5 {
		if err := list(); err != nil {
			t.Error(err)
		}
	}
}

func TestInTheSimulatedCloudListsLagBehindByTheConfiguredTimeAndGETsShowTheCurrentState(t *testing.T) {
	fake := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cloud := start(t, openstack.Config{Clock: fake, BootTime: 10 * time.Second})
	cloud.SetListLag(5 * time.Second)
	c := login(t, cloud, nil)
	s := c.boot(t, c.known(t).server("node-1", ""), nil)
	if got := c.list(t, servers.ListOpts{}); len(got) != 0 {
		t.Errorf("the list shows %v already", got)
	}
	if status := c.get(t, s.ID).Status; status != "BUILD" {
		t.Errorf("a GET is exact, got %s", status)
	}
	fake.Step(12 * time.Second)
	if status := c.get(t, s.ID).Status; status != "ACTIVE" {
		t.Errorf("a GET is exact, got %s", status)
	}
	if got := c.list(t, servers.ListOpts{Status: "BUILD"}); len(got) != 1 {
		t.Error("the list does not show the state of 5 s ago")
	}
	fake.Step(5 * time.Second)
	if got := c.list(t, servers.ListOpts{Status: "ACTIVE"}); len(got) != 1 {
		t.Error("the list has not caught up")
	}
}

func TestTheSimulatedNovaListsServersOfALostCellAsUNKNOWNOnlyWithoutPagesAndFilters(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	away := k.server("away", "")
	away.AvailabilityZone = "dbl2"
	lost := c.boot(t, away, nil)
	c.boot(t, k.server("here", ""), nil)
	eventually(t, "both ACTIVE", func() bool { return len(c.list(t, servers.ListOpts{Status: "ACTIVE"})) == 2 })
	cloud.LoseCell("cell2")

	if got := c.list(t, servers.ListOpts{Limit: 100}); len(got) != 1 || got[0] != "here" {
		t.Errorf("a paged list shows %v", got)
	}
	rows := extract(t, servers.List(c.compute, nil).AllPages, servers.ExtractServers)
	if len(rows) != 2 || rows[1].ID != lost.ID || rows[1].Status != "UNKNOWN" {
		t.Errorf("an unpaged list from 2.69 on shows %+v", rows)
	}
	if got := c.list(t, servers.ListOpts{ChangesSince: "2020-01-01T00:00:00Z"}); len(got) != 1 {
		t.Errorf("a list by changes-since shows %v", got)
	}
	old := *c.compute
	old.Microversion = "2.68"
	if rows := extract(t, servers.List(&old, nil).AllPages, servers.ExtractServers); len(rows) != 1 {
		t.Errorf("a list below 2.69 shows %+v", rows)
	}
	if status := c.get(t, lost.ID).Status; status != "UNKNOWN" {
		t.Error(status)
	}
	cloud.RestoreCells()
	if status := c.get(t, lost.ID).Status; status != "ACTIVE" {
		t.Error(status)
	}
}

func TestInTheSimulatedCloudServersOnADownHostStayActiveAndCanBeDeleted(t *testing.T) {
	cloud := start(t, openstack.Config{DeleteTime: time.Hour})
	c := login(t, cloud, nil)
	k := c.known(t)
	s := c.boot(t, k.server("node-1", ""), nil)
	eventually(t, "ACTIVE", func() bool { return c.get(t, s.ID).Status == "ACTIVE" })
	for _, h := range cloud.Hosts() {
		h.Down = true
		cloud.SetHost(h)
	}
	if status := c.get(t, s.ID).Status; status != "ACTIVE" {
		t.Errorf("its servers stay as they were, got %s", status)
	}
	_, err := servers.Create(t.Context(), c.compute, k.server("node-2", ""), nil).Extract()
	refused(t, err, 400)
	if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	_, err = servers.Get(t.Context(), c.compute, s.ID).Extract()
	refused(t, err, 404)
}

func TestTheSimulatedCloudsAPIShowsWhenATestPutsAServerIntoERRORStopsItOrDeletesIt(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	ids := map[string]string{}
	for _, name := range []string{"failed", "stopped", "gone"} {
		ids[name] = c.boot(t, k.server(name, ""), nil).ID
	}
	eventually(t, "all ACTIVE", func() bool { return len(c.list(t, servers.ListOpts{Status: "ACTIVE"})) == 3 })
	cloud.FailServer(ids["failed"], "the disk is on fire")
	cloud.StopServer(ids["stopped"])
	cloud.DeleteServer(ids["gone"])
	if s := c.get(t, ids["failed"]); s.Status != "ERROR" || s.Fault.Message != "the disk is on fire" {
		t.Errorf("server %+v", s)
	}
	if status := c.get(t, ids["stopped"]).Status; status != "SHUTOFF" {
		t.Error(status)
	}
	_, err := servers.Get(t.Context(), c.compute, ids["gone"]).Extract()
	refused(t, err, 404)
	if cloud.DeleteServer("nope") {
		t.Error("DeleteServer() of an unknown server returned true")
	}
}

func TestInTheSimulatedCloudCallsAreLoggedWithNameServiceProjectAndDuration(t *testing.T) {
	cloud := start(t, openstack.Config{Latency: 2 * time.Millisecond})
	c := login(t, cloud, nil)
	k := c.known(t)
	cloud.ForgetCalls()
	s := c.boot(t, k.server("node-1", ""), nil)
	c.get(t, s.ID)
	_, err := servers.Get(t.Context(), c.compute, "nope").Extract()
	refused(t, err, 404)

	var names []string
	for _, call := range cloud.Calls() {
		names = append(names, call.Name())
		if call.Project != openstack.MetaKubeProject || call.Service != "compute" || call.Duration < 2*time.Millisecond || call.Time.IsZero() {
			t.Errorf("call %+v", call)
		}
	}
	if got := strings.Join(names, ", "); got != "POST /servers, GET /servers/{id}, GET /servers/{id}" {
		t.Error(got)
	}
	if calls := cloud.Calls(); calls[0].Status != 202 || calls[2].Status != 404 {
		t.Errorf("calls %+v", calls)
	}
	if n := cloud.CallCount("GET /servers/{id}"); n != 2 {
		t.Errorf("%d GETs", n)
	}
	if all, compute, none := cloud.CallCount(), cloud.CallCount("compute"), cloud.CallCount("network"); all != 3 || compute != 3 || none != 0 {
		t.Errorf("%d calls, %d to compute, %d to network", all, compute, none)
	}
	if by := cloud.CallsByName(); by["POST /servers"] != 1 || len(by) != 2 {
		t.Errorf("by name %v", by)
	}
	if cloud.PeakCalls() != 1 {
		t.Errorf("peak %d", cloud.PeakCalls())
	}
}
