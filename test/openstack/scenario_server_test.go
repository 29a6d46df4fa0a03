package openstack_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/test/openstack"
)

func TestInTheSimulatedCloudAServerBootsOnARequestedPortWhichStaysWhenTheServerIsDeleted(t *testing.T) {
	cloud := start(t, openstack.Config{})
	var mu sync.Mutex
	var told []string
	cloud.OnBoot(func(s openstack.Server) { mu.Lock(); told = append(told, "boot "+s.ID); mu.Unlock() })
	cloud.OnGone(func(id string) { mu.Lock(); told = append(told, "gone "+id); mu.Unlock() })
	c := login(t, cloud, nil)
	k := c.known(t)

	p := c.port(t, k, "drover test")
	s := c.boot(t, k.server("node-1", p.ID), servers.SchedulerHintOpts{Group: openstack.MetaKubeServerGroup})
	eventually(t, "ACTIVE", func() bool { return c.get(t, s.ID).Status == "ACTIVE" })
	s = c.get(t, s.ID)
	if s.AvailabilityZone != openstack.MetaKubeZone || s.HostID == "" || s.Metadata["machine-uid"] != "uid-node-1" || s.LaunchedAt.IsZero() {
		t.Errorf("server is %+v", s)
	}
	if s.ServerGroups == nil || !slices.Equal(*s.ServerGroups, []string{openstack.MetaKubeServerGroup}) {
		t.Errorf("server groups %v", s.ServerGroups)
	}
	if list := s.Addresses[openstack.MetaKubeNetwork].([]any); list[0].(map[string]any)["addr"] != p.FixedIPs[0].IPAddress {
		t.Errorf("addresses %v, want %v", list, p.FixedIPs)
	}
	bound, err := ports.Get(t.Context(), c.network, p.ID).Extract()
	if err != nil || bound.DeviceID != s.ID || bound.Status != "ACTIVE" || bound.DeviceOwner != "compute:dbl1" {
		t.Errorf("port is %+v, %v", bound, err)
	}

	if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "404", func() bool {
		_, err := servers.Get(t.Context(), c.compute, s.ID).Extract()
		return err != nil
	})
	left, err := ports.Get(t.Context(), c.network, p.ID).Extract()
	if err != nil || left.DeviceID != "" || left.Status != "DOWN" {
		t.Errorf("a port made in advance outlives its server, unbound; got %+v, %v", left, err)
	}
	if l := cloud.Leftovers(); len(l.Servers) != 0 || len(l.Ports) != 1 {
		t.Errorf("left %+v", l)
	}
	eventually(t, "both callbacks", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(told, []string{"boot " + s.ID, "gone " + s.ID})
	})
}

func TestInTheSimulatedCloudTheFilterChangesSinceShowsADeletedServer(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	s := c.boot(t, k.server("node-1", ""), nil)
	eventually(t, "ACTIVE", func() bool { return c.get(t, s.ID).Status == "ACTIVE" })
	if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	list := func(o servers.ListOpts) []servers.Server {
		return extract(t, servers.List(c.compute, o).AllPages, servers.ExtractServers)
	}
	eventually(t, "the row gone from the plain list", func() bool { return len(list(servers.ListOpts{})) == 0 })
	rows := list(servers.ListOpts{ChangesSince: time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)})
	if len(rows) != 1 || rows[0].Status != "DELETED" || rows[0].ID != s.ID {
		t.Errorf("rows %+v", rows)
	}
	if rows := list(servers.ListOpts{ChangesSince: time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}); len(rows) != 0 {
		t.Errorf("nothing has changed since then, got %+v", rows)
	}
	if l := cloud.Leftovers(); !l.Empty() {
		t.Errorf("a port that Nova made goes with its server; left %+v", l)
	}
}

func TestInTheSimulatedCloudTheMetadataServiceServesTheDataOfTheServerWithTheGivenID(t *testing.T) {
	cloud := start(t, openstack.Config{})
	c := login(t, cloud, nil)
	k := c.known(t)
	o := k.server("Node_1", "")
	o.UserData = []byte("#cloud-config\nhostname: ümlaut\n")
	s := c.boot(t, o, nil)

	get := func(path, id string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cloud.MetadataURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Instance-ID", id)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if status, body := get("/openstack/latest/user_data", s.ID); status != 200 || body != "#cloud-config\nhostname: ümlaut\n" {
		t.Errorf("user data: %d %q", status, body)
	}
	status, body := get("/openstack/latest/meta_data.json", s.ID)
	for _, want := range []string{`"uuid":"` + s.ID + `"`, `"name":"Node_1"`, `"hostname":"node-1.novalocal"`, `"machine-uid":"uid-Node_1"`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("meta data %d %s, want %s", status, body, want)
		}
	}
	if status, _ := get("/openstack/latest/user_data", "not-there"); status != 404 {
		t.Errorf("unknown server: %d", status)
	}
	cloud.DeleteServer(s.ID)
	if status, _ := get("/openstack/latest/meta_data.json", s.ID); status != 404 {
		t.Errorf("deleted server: %d", status)
	}
}
