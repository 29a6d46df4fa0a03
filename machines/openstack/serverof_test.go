package openstack

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/provider"
)

func TestServerOfAMachine(t *testing.T) {
	t.Parallel()
	t.Run("the server is returned with the addresses that the cloud shows, without a call to the cloud (F-2)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", fullFields())
		_, want := b.active(m)
		m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.96.0.1"}}
		before := b.calls()
		got, err := b.cloud.ServerOf(b.ctx, m)
		if err != nil || got == nil || got.ID != want.ID || got.Name != "a" || got.Owner != m.UID {
			t.Fatalf("got %+v, error %v, want server %s", got, err, want.ID)
		}
		if calls := b.calls(); calls != before {
			t.Errorf("%d calls were made, want none", calls-before)
		}
		made, _ := b.sim.Server(want.ID)
		internal, external := addressesOfType(got.Addresses, corev1.NodeInternalIP), addressesOfType(got.Addresses, corev1.NodeExternalIP)
		if len(internal) != 1 || internal[0] != made.FixedIPs[0] || len(external) != 1 {
			t.Errorf("got addresses %v, want %s and one floating IP", got.Addresses, made.FixedIPs[0])
		}
	})
	t.Run("the server is returned with the addresses of trunk subports and the host name in its metadata (F-113)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields().with("tags", map[string]string{"hostname": "a.example.com"}))
		_, s := b.active(m)
		var sub struct {
			Port struct {
				ID  string `json:"id"`
				IPs []struct {
					Address string `json:"ip_address"`
				} `json:"fixed_ips"`
			} `json:"port"`
		}
		b.raw(client.Network, "POST", "ports", map[string]any{"port": map[string]any{"network_id": b.plan(m).Ports[0].NetworkID}}, &sub)
		b.raw(client.Network, "POST", "trunks", map[string]any{"trunk": map[string]any{
			"port_id": s.Record.(*provider.Record).PortIDs[0], "sub_ports": []map[string]any{{"port_id": sub.Port.ID, "segmentation_type": "vlan", "segmentation_id": 100}},
		}}, nil)
		b.pass(16 * time.Minute)
		got, err := b.cloud.ServerOf(b.ctx, m)
		if err != nil || got == nil {
			t.Fatalf("got %+v, error %v", got, err)
		}
		if internal := addressesOfType(got.Addresses, corev1.NodeInternalIP); !slices.Contains(internal, sub.Port.IPs[0].Address) {
			t.Errorf("the addresses are %v, want also %s", internal, sub.Port.IPs[0].Address)
		}
		if names := addressesOfType(got.Addresses, corev1.NodeHostName); !slices.Equal(names, []string{"a", "a.example.com"}) {
			t.Errorf("the host names are %v", names)
		}
	})
	t.Run("no server is returned when spec.providerID names the server of another Machine (F-2)", func(t *testing.T) {
		b := newBench(t)
		_, victim := b.active(newMachine(t, "victim", seedFields()))
		m := newMachine(t, "forger", seedFields())
		m.Spec.ProviderID = ptr.To("openstack:///" + victim.ID)
		b.observe(b.synced(m))
		if got, err := b.cloud.ServerOf(b.ctx, m); got != nil || err != nil {
			t.Errorf("got %+v, error %v, want no server", got, err)
		}
	})
	t.Run("no server is returned after the server was deleted (F-2)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		i, _ := b.active(m)
		if err := i.DeleteServer(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.eventually("the server is gone", func() bool { return b.observe(i).Server == nil })
		if got, err := b.cloud.ServerOf(b.ctx, m); got != nil || err != nil {
			t.Errorf("got %+v, error %v, want no server", got, err)
		}
	})
	t.Run("an error is returned before the servers of the Machine's project are listed (F-2)", func(t *testing.T) {
		b := newBench(t)
		for name, look := range map[string]func(*v1alpha1.Machine){
			"never reconciled": func(*v1alpha1.Machine) {},
			"not listed":       func(m *v1alpha1.Machine) { b.stop(); b.instance(m) },
		} {
			m := newMachine(t, "a", seedFields())
			look(m)
			if got, err := b.cloud.ServerOf(t.Context(), m); got != nil || err == nil {
				t.Errorf("%s: got %+v, error %v, want an error", name, got, err)
			}
		}
	})
}

func addressesOfType(all []corev1.NodeAddress, kind corev1.NodeAddressType) (out []string) {
	for _, a := range all {
		if a.Type == kind {
			out = append(out, a.Address)
		}
	}
	return out
}
