package openstack

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/drover-project/drover/machines/fault"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestFloatingIPs(t *testing.T) {
	t.Parallel()
	t.Run("a server with two networks gets one floating IP, on the first network (MC-51)", func(t *testing.T) {
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
		b.raw(client.Network, "GET", "floatingips", nil, &all)
		made, _ := b.sim.Server(s.ID)
		if len(made.FixedIPs) != 2 || len(all.FloatingIPs) != 1 || all.FloatingIPs[0].Fixed != made.FixedIPs[0] {
			t.Errorf("addresses %v, floating IPs %+v", made.FixedIPs, all.FloatingIPs)
		}
	})
	t.Run("a free floating IP of the pool is never taken, and a dry run says so (F-135)", func(t *testing.T) {
		b := newBench(t)
		var pool struct {
			Networks []struct{ ID string } `json:"networks"`
		}
		b.raw(client.Network, "GET", "networks?name="+sim.MetaKubePool, nil, &pool)
		var free struct {
			IP struct{ ID string } `json:"floatingip"`
		}
		b.raw(client.Network, "POST", "floatingips", map[string]any{"floatingip": map[string]any{"floating_network_id": pool.Networks[0].ID}}, &free)
		m := newMachine(t, "a", fullFields())
		b.options.ReadOnly = true
		b.restart()
		if warnings := b.synced(m).Warnings(); !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "floatingIpPool: ") }) {
			t.Errorf("the dry run's warnings are %q", warnings)
		}
		b.options.ReadOnly = false
		b.restart()
		i, _ := b.active(m)
		if warnings := i.Warnings(); len(warnings) != 0 {
			t.Errorf("the warnings are %q", warnings)
		}
		b.remove(i)
		if left := b.sim.Leftovers().FloatingIPs; len(left) != 1 || left[0] != free.IP.ID {
			t.Errorf("left are the floating IPs %q, want only %s", left, free.IP.ID)
		}
	})
	t.Run("a floating IP is deleted with its Machine even when the create of the server failed (MC-51)", func(t *testing.T) {
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

func TestPortWithTheNameOfAMachinesPort(t *testing.T) {
	t.Parallel()
	t.Run("the port stays when the Machine is deleted, because it does not have the Machine's owner tag (MCM-107)", func(t *testing.T) {
		b := newBench(t)
		i, _ := b.active(newMachine(t, "a", seedFields()))
		type port struct {
			ID      string `json:"id"`
			Name    string `json:"name"`
			Network string `json:"network_id"`
		}
		var own struct {
			Ports []port `json:"ports"`
		}
		b.raw(client.Network, "GET", "ports", nil, &own)
		if len(own.Ports) != 1 || own.Ports[0].Name == "" {
			t.Fatalf("got %+v", own)
		}
		var namesake struct {
			Port port `json:"port"`
		}
		b.raw(client.Network, "POST", "ports", map[string]any{"port": map[string]any{"name": own.Ports[0].Name, "network_id": own.Ports[0].Network}}, &namesake)
		b.remove(i)
		b.pass(10 * time.Minute)
		if left := b.sim.Leftovers(); len(left.Ports) != 1 || left.Ports[0] != namesake.Port.ID || len(left.Servers) != 0 {
			t.Errorf("left %+v, want only the port %s", left, namesake.Port.ID)
		}
	})
}
