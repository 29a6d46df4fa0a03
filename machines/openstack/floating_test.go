package openstack

import (
	"net/http"
	"testing"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestFloatingIPs(t *testing.T) {
	t.Run("MC-51 of two networks only the first gets one", func(t *testing.T) {
		b := newBench(t)
		second := b.sim.AddNetwork(sim.Network{Name: "second", Project: sim.MetaKubeProject})
		if _, err := b.sim.AddSubnet(sim.Subnet{Name: "second", Network: second, CIDR: "10.9.0.0/24"}); err != nil {
			t.Fatal(err)
		}
		_, s := b.active(newMachine(t, "a", fullFields().with("networks", []string{"second"})))
		var all struct {
			FloatingIPs []struct {
				Fixed string `json:"fixed_ip_address"`
			} `json:"floatingips"`
		}
		b.raw(networkService, "GET", "floatingips", nil, &all)
		made, _ := b.sim.Server(s.ID)
		if len(made.FixedIPs) != 2 || len(all.FloatingIPs) != 1 || all.FloatingIPs[0].Fixed != made.FixedIPs[0] {
			t.Errorf("addresses %v, floating IPs %+v", made.FixedIPs, all.FloatingIPs)
		}
	})
	t.Run("MC-51 a create that fails leaves none once the Machine is deleted", func(t *testing.T) {
		b := newBench(t)
		i := b.synced(newMachine(t, "a", fullFields()))
		b.sim.Inject(sim.Fault{Call: "POST /servers", Status: http.StatusInternalServerError})
		if _, err := b.make(i); !fault.Is(err, fault.Transient) {
			t.Fatalf("got %v", err)
		}
		if left := b.sim.Leftovers(); len(left.FloatingIPs) != 1 || len(left.Servers) != 0 {
			t.Fatalf("before it is deleted there are %+v", left)
		}
		b.remove(i)
		b.nothingLeft()
	})
}
