package openstack

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// unbind detaches the port from its server, as Nova does when it cleans up another server that used the same port.
func (b *bench) unbind(port string) {
	b.t.Helper()
	b.raw(client.Network, "PUT", "ports/"+port, map[string]any{"port": map[string]any{"device_id": "", "device_owner": ""}}, nil)
}

func TestActiveServerWithoutANode(t *testing.T) {
	t.Parallel()
	t.Run("the server counts as failed and is replaced after two minutes when its port is not bound to it (F-21)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", fullFields())
		i, s := b.active(m)
		port := b.onePort()
		b.unbind(port)
		began := b.clock.Now()
		b.eventually("the server counts as failed", func() bool { return b.observe(i).Server.State == cloud.ServerError })
		if took := b.clock.Since(began); took < state.DetachedAfter-10*time.Second || took > 2*state.DetachedAfter {
			t.Errorf("it took %s, want %s to %s", took, state.DetachedAfter, 2*state.DetachedAfter)
		}
		f := b.observe(i).Server.Fault
		if f == nil || f.Class != fault.Transient || !strings.Contains(f.Error(), s.ID) || !strings.Contains(f.Error(), port) {
			t.Errorf("got %v, want a Transient fault that names server and port", f)
		}
		if err := i.DeleteFailed(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.eventually("the server is gone", func() bool { return b.observe(i).Server == nil })
		again := b.working(i)
		if b.onePort() == port {
			t.Error("the new server is on the same port")
		}
		b.hasItsPort(again.ID)
		b.once(t)
	})
	t.Run("the server's ports are looked up only once when its port is bound to it (F-21)", func(t *testing.T) {
		b := newBench(t)
		i, _ := b.active(newMachine(t, "a", seedFields()))
		b.sim.ForgetCalls()
		b.pass(10 * time.Minute)
		if got := b.calls("GET /ports"); got != 1 {
			t.Errorf("the ports were listed %d times in 10 minutes, want once", got)
		}
		if s := b.observe(i).Server; s.State != cloud.ServerActive {
			t.Errorf("got %s, want Active", s.State)
		}
	})
	t.Run("the server's ports are looked up again when the first look-up fails (F-21)", func(t *testing.T) {
		b := newBench(t)
		i, _ := b.active(newMachine(t, "a", seedFields()))
		b.unbind(b.onePort())
		b.sim.SetNetworkDown(true)
		b.pass(4 * time.Minute)
		if s := b.observe(i).Server; s.State != cloud.ServerActive {
			t.Errorf("got %s while nothing is known of its port, want Active", s.State)
		}
		b.sim.SetNetworkDown(false)
		b.eventually("the server counts as failed", func() bool { return b.observe(i).Server.State == cloud.ServerError })
	})
}

func TestServerWithANode(t *testing.T) {
	t.Parallel()
	t.Run("a server that lost its port does not count as failed when it has a Node, and its ports are not looked up", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		b.active(m)
		b.unbind(b.onePort())
		m.Status.NodeRef = &corev1.ObjectReference{Name: "a"}
		i := b.synced(m)
		b.sim.ForgetCalls()
		b.pass(5 * time.Minute)
		if got := b.calls("GET /ports"); got != 0 {
			t.Errorf("the ports were listed %d times, want never", got)
		}
		if s := b.observe(i).Server; s.State != cloud.ServerActive {
			t.Errorf("got %s, want Active", s.State)
		}
	})
}

func TestDuplicateOfAServerThatLostItsPort(t *testing.T) {
	t.Parallel()
	t.Run("the duplicate becomes the Machine's server after the server without a port is deleted (F-21)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, bad := b.active(m)
		m.Spec.ProviderID = ptr.To(bad.ProviderID)
		good := b.duplicate(m)
		i := b.synced(m)
		b.eventually("the server without a port counts as failed", func() bool { return b.observe(i).Server.State == cloud.ServerError })
		m.Spec.ProviderID = nil
		i = b.synced(m)
		if err := i.DeleteFailed(b.ctx); err != nil {
			t.Fatal(err)
		}
		b.eventually("the duplicate is the Machine's server", func() bool {
			s := b.observe(i).Server
			return s != nil && s.ID == good && s.State == cloud.ServerActive
		})
		b.pass(5 * time.Minute)
		if left := b.sim.Leftovers().Servers; len(left) != 1 || left[0] != good {
			t.Errorf("there are servers %v, want %s alone", left, good)
		}
	})
}

// duplicate creates a second server with both owner tags of the Machine, on a new port that replaces the first server's port.
func (b *bench) duplicate(m *v1alpha1.Machine) string {
	b.t.Helper()
	plan, own := b.plan(m), state.Tag{Kind: cloud.ResourcePort, Cluster: testCluster, Machine: m.UID}
	var port struct {
		Port struct{ ID string } `json:"port"`
	}
	var made struct {
		Server struct{ ID string } `json:"server"`
	}
	b.raw(client.Network, "DELETE", "ports/"+b.onePort(), nil, nil)
	b.raw(client.Network, "POST", "ports", map[string]any{"port": map[string]any{
		"network_id": plan.Ports[0].NetworkID, "description": own.String(),
	}}, &port)
	b.raw(client.Compute, "POST", "servers", map[string]any{"server": map[string]any{
		"name": m.Name, "flavorRef": plan.Flavor.ID, "imageRef": plan.Image.ID, "networks": []any{map[string]any{"port": port.Port.ID}},
		"metadata": map[string]string{state.MetadataMachineUID: string(m.UID), state.MetadataClusterID: testCluster},
	}}, &made)
	b.restart()
	return made.Server.ID
}
