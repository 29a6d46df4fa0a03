package openstack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/drover-project/drover/test/openstack"
)

// big returns a cloud with n ACTIVE servers, each with a port.
func big(t testing.TB, n int) (*openstack.Cloud, clients) {
	t.Helper()
	cloud := openstack.New(openstack.Config{Seed: func(c *openstack.Cloud) {
		openstack.SeedMetaKube(c)
		wide := c.AddNetwork(openstack.Network{Name: "wide", Project: openstack.MetaKubeProject})
		if _, err := c.AddSubnet(openstack.Subnet{Network: wide, CIDR: "10.0.0.0/16"}); err != nil {
			t.Fatal(err)
		}
	}})
	t.Cleanup(cloud.Close)
	c := login(t, cloud, cloud.RoundTripper())
	k := c.known(t)
	k.network = extract(t, networks.List(c.network, networks.ListOpts{Name: "wide"}).AllPages, networks.ExtractNetworks)[0].ID
	for i := range n {
		c.boot(t, k.server(fmt.Sprintf("node-%d", i), ""), servers.SchedulerHintOpts{Group: openstack.MetaKubeServerGroup})
	}
	return cloud, c
}

func TestALongListOfServersComesInFullPages(t *testing.T) {
	const n = 2000
	cloud, c := big(t, n)
	cloud.ForgetCalls()
	if got := len(c.list(t, servers.ListOpts{Limit: 1000})); got != n {
		t.Errorf("%d servers", got)
	}
	if calls := cloud.CallCount("GET /servers/detail"); calls != n/1000+1 {
		t.Errorf("%d calls: full pages and an empty one", calls)
	}
}

// The simulated cloud should answer a page faster than a client decodes it, else benchmarks of drover measure the simulation.
func BenchmarkAPageOfServers(b *testing.B) {
	cloud, c := big(b, 2000)
	b.Run("answered", func(b *testing.B) {
		for b.Loop() {
			c.page(b, cloud)
		}
	})
	b.Run("decoded", func(b *testing.B) {
		body := c.page(b, cloud)
		for b.Loop() {
			var rows map[string]any
			if err := json.Unmarshal(body, &rows); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func (c clients) page(t testing.TB, cloud *openstack.Cloud) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.compute.ServiceURL("servers", "detail")+"?limit=1000", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", c.provider.Token())
	r.Header.Set("OpenStack-API-Version", "compute 2.93")
	resp, err := cloud.RoundTripper().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return body
}
