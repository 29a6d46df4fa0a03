package openstack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/drover-project/drover/test/openstack"
)

// big returns a cloud with n ACTIVE servers, each with a port.
func big(t *testing.T, n int) (*openstack.Cloud, clients) {
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

func TestTheSimulatedCloudListsServersFasterThanAClientDecodesThem(t *testing.T) {
	const n = 2000
	begin := time.Now()
	cloud, c := big(t, n)
	t.Logf("%d servers with ports made in %s", n, time.Since(begin))
	cloud.ForgetCalls()
	if got := len(c.list(t, servers.ListOpts{Limit: 1000})); got != n {
		t.Errorf("%d servers", got)
	}
	if calls := cloud.CallCount("GET /servers/detail"); calls != n/1000+1 {
		t.Errorf("%d calls: full pages and an empty one", calls)
	}

	// The simulated cloud must answer a page faster than a client can decode it. The test compares the best of a few runs of each.
	page, decode := time.Hour, time.Hour
	for range 5 {
		begin = time.Now()
		body := c.page(t, cloud)
		page = min(page, time.Since(begin))
		begin = time.Now()
		var rows map[string]any
		if err := json.Unmarshal(body, &rows); err != nil {
			t.Fatal(err)
		}
		decode = min(decode, time.Since(begin))
	}
	t.Logf("a page of 1000 servers is answered in %s, decoded in %s", page, decode)
	if page > decode {
		t.Errorf("a page of 1000 servers took %s, decoding it only %s", page, decode)
	}
}

func (c clients) page(t *testing.T, cloud *openstack.Cloud) []byte {
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
