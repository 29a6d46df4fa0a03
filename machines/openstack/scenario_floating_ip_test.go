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
		b.options.Observe = func(*http.Request) {}
		b.restart()
		if warnings := b.synced(m).Warnings(); !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "floatingIpPool: ") }) {
			t.Errorf("the dry run's warnings are %q", warnings)
		}
		b.options.Observe = nil
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
	t.Run("the deletion of a floating IP is repeated until the cloud accepts it, however often the cloud fails (report 44)", func(t *testing.T) {
		b := newBench(t)
		i, _ := b.active(newMachine(t, "a", fullFields()))
		b.sim.Inject(sim.Fault{Call: "DELETE /floatingips/{id}", Status: http.StatusInternalServerError, Times: 10})
		b.eventually("everything is released", func() bool {
			if b.observe(i).Server != nil {
				_ = i.DeleteServer(b.ctx)
				return false
			}
			released, err := i.Release(b.ctx)
			return err == nil && released.Done
		})
		if n := b.calls("DELETE /floatingips/{id}"); n != 11 {
			t.Errorf("%d requests, want ten that fail and one that succeeds", n)
		}
		b.nothingLeft()
	})
	t.Run("a floating IP that another client has put on another port is not taken back (report 46)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", fullFields())
		i, s := b.active(m)
		var other struct {
			Port struct{ ID string } `json:"port"`
		}
		b.raw(client.Network, "POST", "ports", map[string]any{"port": map[string]any{"network_id": b.plan(m).Ports[0].NetworkID}}, &other)
		b.raw(client.Network, "PUT", "floatingips/"+b.sim.Leftovers().FloatingIPs[0], map[string]any{"floatingip": map[string]any{"port_id": other.Port.ID}}, nil)
		b.sim.ForgetCalls()
		for range 30 {
			b.pass(time.Minute)
			if got := b.observe(i).Server; got == nil || got.ID != s.ID {
				t.Fatalf("the server is %+v", got)
			}
		}
		if put, made := b.calls("PUT /floatingips/{id}"), b.calls("POST /floatingips"); put+made != 0 {
			t.Errorf("%d changes of floating IPs, and %d new ones", put, made)
		}
		b.remove(i)
		if left := b.sim.Leftovers(); len(left.FloatingIPs) != 0 || len(left.Ports) != 1 || left.Ports[0] != other.Port.ID {
			t.Errorf("left %+v, want only the port %s", left, other.Port.ID)
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
	t.Run("a port that had the name before its Machine is not used for the Machine's server, and stays (report 41)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		var namesake struct {
			Port struct{ ID string } `json:"port"`
		}
		b.raw(client.Network, "POST", "ports", map[string]any{"port": map[string]any{"name": "a", "network_id": b.plan(m).Ports[0].NetworkID}}, &namesake)
		i, s := b.active(m)
		if got, _ := b.sim.Server(s.ID); len(got.Ports) != 1 || got.Ports[0] == namesake.Port.ID {
			t.Errorf("the server has the ports %v, and another client made %s", got.Ports, namesake.Port.ID)
		}
		b.remove(i)
		b.pass(10 * time.Minute)
		if left := b.sim.Leftovers(); len(left.Ports) != 1 || left.Ports[0] != namesake.Port.ID || len(left.Servers) != 0 {
			t.Errorf("left %+v, want only the port %s", left, namesake.Port.ID)
		}
	})
}
