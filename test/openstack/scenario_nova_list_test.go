package openstack_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/test/openstack"
)

// flavors returns the IDs of the flavors by name.
func (c clients) flavors(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range extract(t, flavors.ListDetail(c.compute, nil).AllPages, flavors.ExtractFlavors) {
		out[f.Name] = f.ID
	}
	return out
}

func (c clients) list(t *testing.T, o servers.ListOpts) []string {
	t.Helper()
	var names []string
	for _, s := range extract(t, servers.List(c.compute, o).AllPages, servers.ExtractServers) {
		names = append(names, s.Name)
	}
	return names
}

func TestListsOfServersOfTheSimulatedNova(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	ids := map[string]string{}
	for i := range 5 {
		o := k.server(fmt.Sprintf("node-%d", i), "")
		if i == 3 {
			o.Tags = []string{"special"}
		}
		ids[o.Name] = c.boot(t, o, nil).ID
	}
	eventually(t, "all ACTIVE", func() bool { return len(c.list(t, servers.ListOpts{Status: "ACTIVE"})) == 5 })
	newestFirst := []string{"node-4", "node-3", "node-2", "node-1", "node-0"}

	t.Run("lists show the newest servers first, page by page", func(t *testing.T) {
		cloud.ForgetCalls()
		if got := c.list(t, servers.ListOpts{Limit: 2}); !slices.Equal(got, newestFirst) {
			t.Errorf("got %v", got)
		}
		if n := cloud.CallCount("GET /servers/detail"); n != 3 {
			t.Errorf("%d calls for 5 servers in pages of 2", n)
		}
	})
	t.Run("lists can be filtered by a regular expression that matches a part of the name", func(t *testing.T) {
		if got := c.list(t, servers.ListOpts{Name: "e-[12]"}); !slices.Equal(got, []string{"node-2", "node-1"}) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("lists can be filtered by tag", func(t *testing.T) {
		if got := c.list(t, servers.ListOpts{Tags: "special"}); !slices.Equal(got, []string{"node-3"}) {
			t.Errorf("got %v", got)
		}
		if got := c.list(t, servers.ListOpts{NotTags: "special"}); len(got) != 4 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("a deleted server is accepted as the marker of a list, and an unknown or archived server is refused", func(t *testing.T) {
		_, err := servers.List(c.compute, servers.ListOpts{Marker: "nope"}).AllPages(t.Context())
		if text := refused(t, err, 400); !strings.Contains(text, "marker [nope] not found") {
			t.Error(text)
		}
		cloud.DeleteServer(ids["node-2"])
		if got := c.list(t, servers.ListOpts{Marker: ids["node-2"]}); !slices.Equal(got, []string{"node-1", "node-0"}) {
			t.Errorf("got %v", got)
		}
		cloud.ArchiveDeleted()
		_, err = servers.List(c.compute, servers.ListOpts{Marker: ids["node-2"]}).AllPages(t.Context())
		refused(t, err, 400)
	})
	t.Run("a user without the role admin may not list servers with all_tenants, status DELETED, an unknown status or an invalid time", func(t *testing.T) {
		for status, want := range map[string]int{"NICE": 400, "DELETED": 403} {
			_, err := servers.List(c.compute, servers.ListOpts{Status: status}).AllPages(t.Context())
			refused(t, err, want)
		}
		_, err := servers.List(c.compute, servers.ListOpts{AllTenants: true}).AllPages(t.Context())
		refused(t, err, http.StatusForbidden)
		_, err = servers.List(c.compute, servers.ListOpts{ChangesSince: "yesterday"}).AllPages(t.Context())
		refused(t, err, 400)
	})
}

func TestInTheSimulatedCloudTheFilterChangesSinceShowsServersThatChangedAfterTheGivenTime(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	fake := testclock.NewFakeClock(begin)
	cloud := start(t, openstack.Config{Clock: fake, BootTime: 30 * time.Second, DeleteTime: 10 * time.Second})
	c := login(t, cloud, nil)
	k := c.known(t)
	since := func(d time.Duration) []servers.Server {
		return extract(t, servers.List(c.compute, servers.ListOpts{ChangesSince: begin.Add(d).Format(time.RFC3339)}).AllPages, servers.ExtractServers)
	}
	s := c.boot(t, k.server("node-1", ""), nil)
	if rows := since(0); len(rows) != 1 || rows[0].Status != "BUILD" || rows[0].TaskState != "scheduling" {
		t.Fatalf("rows %+v", rows)
	}
	fake.Step(10 * time.Second)
	if rows := since(10 * time.Second); len(rows) != 1 || rows[0].TaskState != "spawning" || rows[0].HostID == "" || len(rows[0].Addresses) != 1 {
		t.Fatalf("rows %+v", rows)
	}
	if rows := since(11 * time.Second); len(rows) != 0 {
		t.Fatalf("rows %+v", rows)
	}
	fake.Step(20 * time.Second)
	if rows := since(11 * time.Second); len(rows) != 1 || rows[0].Status != "ACTIVE" || !rows[0].Updated.Equal(begin.Add(30*time.Second)) {
		t.Fatalf("rows %+v", rows)
	}
	if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if got := c.get(t, s.ID); got.Status != "ACTIVE" || got.TaskState != "deleting" {
		t.Fatalf("server %+v", got)
	}
	if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
		t.Errorf("a second deletion is accepted too: %v", err)
	}
	fake.Step(10 * time.Second)
	_, err := servers.Get(t.Context(), c.compute, s.ID).Extract()
	refused(t, err, 404)
	if rows := since(40 * time.Second); len(rows) != 1 || rows[0].Status != "DELETED" || len(rows[0].Metadata) != 0 || len(rows[0].Addresses) != 0 {
		t.Fatalf("rows %+v", rows)
	}
}

func TestTheSimulatedNovaChangesTheMetadataOfAServerAndStopsLocksAndForceDeletesIt(t *testing.T) {
	cloud := start(t, openstack.Config{DeleteTime: time.Hour})
	c := login(t, cloud, nil)
	s := c.boot(t, c.known(t).server("node-1", ""), nil)
	eventually(t, "ACTIVE", func() bool { return c.get(t, s.ID).Status == "ACTIVE" })
	ctx := t.Context()

	cloud.SetConsole(s.ID, "one\ntwo\nthree\n")
	text, err := servers.ShowConsoleOutput(ctx, c.compute, s.ID, servers.ShowConsoleOutputOpts{Length: 2}).Extract()
	if err != nil || text != "two\nthree\n" {
		t.Errorf("console %q, %v", text, err)
	}
	if _, err := servers.UpdateMetadata(ctx, c.compute, s.ID, servers.MetadataOpts{"cluster": "c1"}).Extract(); err != nil {
		t.Error(err)
	}
	if m := c.get(t, s.ID).Metadata; m["cluster"] != "c1" || m["machine-uid"] != "uid-node-1" {
		t.Errorf("metadata %v", m)
	}
	if err := servers.Stop(ctx, c.compute, s.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if status := c.get(t, s.ID).Status; status != "SHUTOFF" {
		t.Error(status)
	}
	refused(t, servers.Stop(ctx, c.compute, s.ID).ExtractErr(), 409)
	if err := servers.Lock(ctx, c.compute, s.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	refused(t, servers.Delete(ctx, c.compute, s.ID).ExtractErr(), 409)
	if err := servers.Unlock(ctx, c.compute, s.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := servers.Delete(ctx, c.compute, s.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if task := c.get(t, s.ID).TaskState; task != "deleting" {
		t.Error(task)
	}
	if err := servers.ForceDelete(ctx, c.compute, s.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	_, err = servers.Get(ctx, c.compute, s.ID).Extract()
	refused(t, err, 404)
}

func TestTheSimulatedNovaServesFlavorsZonesServerGroupsAndKeyPairs(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	ctx := t.Context()
	t.Run("flavors show their extra specs from microversion 2.61 on", func(t *testing.T) {
		for version, want := range map[string]int{"2.60": 0, "2.61": 1} {
			at := *c.compute
			at.Microversion = version
			for _, f := range extract(t, flavors.ListDetail(&at, nil).AllPages, flavors.ExtractFlavors) {
				if f.Name == "l1.small" && len(f.ExtraSpecs) != want {
					t.Errorf("at %s: %v", version, f.ExtraSpecs)
				}
			}
		}
	})
	t.Run("a zone is shown as available only while one of its hosts is up", func(t *testing.T) {
		for _, h := range cloud.Hosts() {
			if h.Zone == "dbl2" {
				h.Down = true
				cloud.SetHost(h)
			}
		}
		for _, z := range extract(t, availabilityzones.List(c.compute).AllPages, availabilityzones.ExtractAvailabilityZones) {
			if z.ZoneState.Available != (z.ZoneName == openstack.MetaKubeZone) {
				t.Errorf("zone %+v", z)
			}
		}
	})
	t.Run("server groups can be created and found, and count against the quota", func(t *testing.T) {
		made, err := servergroups.Create(ctx, c.compute, servergroups.CreateOpts{Name: "g", Policy: "soft-anti-affinity"}).Extract()
		if err != nil || made.Policy == nil || *made.Policy != "soft-anti-affinity" {
			t.Fatalf("made %+v, %v", made, err)
		}
		old := *c.compute
		old.Microversion = "2.15"
		got, err := servergroups.Get(ctx, &old, made.ID).Extract()
		if err != nil || !slices.Equal(got.Policies, []string{"soft-anti-affinity"}) {
			t.Errorf("got %+v, %v", got, err)
		}
		if n := len(extract(t, servergroups.List(c.compute, nil).AllPages, servergroups.ExtractServerGroups)); n != 2 {
			t.Errorf("%d groups", n)
		}
		cloud.SetQuota("", openstack.Quota{ServerGroups: 2})
		_, err = servergroups.Create(ctx, c.compute, servergroups.CreateOpts{Name: "h", Policy: "affinity"}).Extract()
		refused(t, err, 403)
	})
	t.Run("a server shows the key pair that it was created with", func(t *testing.T) {
		if _, err := keypairs.Create(ctx, c.compute, keypairs.CreateOpts{Name: "k", PublicKey: "ssh-ed25519 AAAA"}).Extract(); err != nil {
			t.Fatal(err)
		}
		k := c.known(t)
		s := c.boot(t, keypairs.CreateOptsExt{CreateOptsBuilder: k.server("with-key", ""), KeyName: "k"}, nil)
		if got := c.get(t, s.ID); got.KeyName != "k" {
			t.Errorf("key %q", got.KeyName)
		}
	})
}
