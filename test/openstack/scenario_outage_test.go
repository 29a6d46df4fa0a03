package openstack_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/test/openstack"
)

func TestTheSimulatedNovaDependsOnNeutron(t *testing.T) {
	t.Run("while Neutron is down, lists of ports fail, Nova answers 500, and servers that are being built go to ERROR (F-58)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Realistic(openstack.Config{Seed: openstack.SeedMetaKube}, 1))
			defer cloud.Close()
			c := login(t, cloud, cloud.RoundTripper())
			k := c.known(t)
			s := c.boot(t, k.server("node-1", ""), nil)

			cloud.SetNetworkDown(true)
			if _, err := ports.List(c.network, nil).AllPages(t.Context()); err == nil {
				t.Error("Neutron answers")
			}
			_, err := servers.Create(t.Context(), c.compute, k.server("node-2", ""), nil).Extract()
			refused(t, err, 500)
			_, err = servers.List(c.compute, nil).AllPages(t.Context())
			refused(t, err, 500)
			_, err = servers.Get(t.Context(), c.compute, s.ID).Extract()
			refused(t, err, 500)
			time.Sleep(time.Minute)

			cloud.SetNetworkDown(false)
			got := c.get(t, s.ID)
			if got.Status != "ERROR" || !strings.Contains(got.Fault.Message, "Unable to establish connection") || got.HostID != "" {
				t.Errorf("the server is %s on host %q with fault %q", got.Status, got.HostID, got.Fault.Message)
			}
			next := c.boot(t, k.server("node-2", ""), nil)
			time.Sleep(time.Minute)
			if status := c.get(t, next.ID).Status; status != "ACTIVE" {
				t.Errorf("the server that was made afterwards is %s, want ACTIVE", status)
			}
		})
	})
	t.Run("while Neutron is down, Nova still answers a list of servers with 200 when the project has no servers (F-58)", func(t *testing.T) {
		cloud := start(t, openstack.Config{})
		c := login(t, cloud, nil)
		cloud.SetNetworkDown(true)
		if _, err := servers.List(c.compute, nil).AllPages(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
