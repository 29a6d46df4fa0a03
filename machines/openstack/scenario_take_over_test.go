package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
)

// raw makes a call as another client of the project.
func (b *bench) raw(s client.Service, method, path string, body, into any) {
	b.t.Helper()
	creds := b.credentials()
	conn, err := b.cloud.connect(b.ctx, &spec.Access{Credentials: &creds}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	err = conn.session.Do(b.ctx, client.Call{Service: s, Doing: method + " " + path}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Request(ctx, method, api.ServiceURL(path), &gophercloud.RequestOpts{
			JSONBody: body, JSONResponse: into, OkCodes: []int{200, 201, 202, 204},
		})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// plan resolves the names in the Machine's spec to IDs, as the driver does.
func (b *bench) plan(m *v1alpha1.Machine) *catalog.Plan {
	b.t.Helper()
	i := b.instance(m)
	p, err := i.connection.catalog.Resolve(b.ctx, i.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// server creates a server as another client of the project.
func (b *bench) server(name string, metadata map[string]string, p *catalog.Plan) string {
	b.t.Helper()
	var made struct {
		Server struct{ ID string } `json:"server"`
	}
	b.raw(client.Compute, "POST", "servers", map[string]any{"server": map[string]any{
		"name": name, "flavorRef": p.Flavor.ID, "imageRef": p.Image.ID, "networks": []any{map[string]any{"uuid": p.Ports[0].NetworkID}},
		"metadata": metadata,
	}}, &made)
	return made.Server.ID
}

// left creates a server as machine-controller leaves it: with a port that Nova created, without Nova tags, and with only the
// Machine's UID in its metadata.
func (b *bench) left(m *v1alpha1.Machine, p *catalog.Plan) string {
	b.t.Helper()
	return b.server(m.Name, map[string]string{state.MetadataMachineUID: string(m.UID), "system-cluster": "mmxfcmgjkx"}, p)
}

func TestServersFromKubermaticsMachineControllerGetOwnerTagsAndAreNotReplaced(t *testing.T) {
	t.Parallel()
	const n = 200
	b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
	b.synced(newMachine(t, "first", seedFields()))
	p := b.plan(newMachine(t, "first", seedFields()))
	var machines []*v1alpha1.Machine
	for k := range n {
		m := newMachine(t, fmt.Sprintf("m%d", k), seedFields())
		id := b.left(m, p)
		if k%2 == 0 {
			m.Spec.ProviderID = ptr.To("openstack:///" + id)
		}
		machines = append(machines, m)
	}
	b.restart()
	b.sim.ForgetCalls()
	living := map[types.UID]bool{}
	for _, m := range machines {
		living[m.UID] = true
		i := b.synced(m)
		if f := b.observe(i); f.Server == nil || f.Gone {
			t.Fatalf("none is missing: %s has %+v", m.Name, f)
		}
		if _, err := i.EnsureServer(b.ctx, nil); err != nil {
			t.Fatalf("%s: the existing server is adopted: %v", m.Name, err)
		}
	}
	tagged := func() int {
		n := 0
		for _, s := range b.sim.Servers() {
			if s.Metadata[state.MetadataClusterID] == testCluster && s.Metadata["system-cluster"] != "" && living[types.UID(s.Metadata[state.MetadataMachineUID])] {
				n++
			}
		}
		return n
	}
	b.eventually("all servers are tagged (CAPI-54)", func() bool { return tagged() == n })
	b.pass(20 * time.Minute)
	for name, want := range map[string]int{
		"POST /servers": 0, "POST /ports": 0, "DELETE /servers/{id}": 0, "DELETE /ports/{id}": 0, "POST /servers/{id}/metadata": n, "GET /servers/{id}": 0,
	} {
		if got := b.calls(name); got != want {
			t.Errorf("CAPI-54: %d × %s, want %d", got, name, want)
		}
	}
	for _, r := range b.tagged() {
		if !living[r.Machine] {
			t.Errorf("%s %s counts as an orphan", r.Kind, r.ID)
		}
	}
}

// address creates a floating IP without an owner tag, as machine-controller does. The floating IP is on port, or on no port if port is
// empty.
func (b *bench) address(pool, port string) string {
	b.t.Helper()
	var made struct {
		FloatingIP struct{ ID string } `json:"floatingip"`
	}
	body := map[string]any{"floating_network_id": pool}
	if port != "" {
		body["port_id"] = port
	}
	b.raw(client.Network, "POST", "floatingips", map[string]any{"floatingip": body}, &made)
	return made.FloatingIP.ID
}

// portOf returns the port of a server.
func (b *bench) portOf(server string) string {
	b.t.Helper()
	var all struct {
		Ports []struct {
			ID     string
			Device string `json:"device_id"`
		}
	}
	b.raw(client.Network, "GET", "ports", nil, &all)
	for _, p := range all.Ports {
		if p.Device == server {
			return p.ID
		}
	}
	b.t.Fatalf("server %s has no port", server)
	return ""
}

// Floating IPs of machine-controller have no owner tag. An annotation of the Machine names them.
func TestFloatingIPsFromKubermaticsMachineController(t *testing.T) {
	t.Parallel()
	type addresses struct{ own, foreign string }
	// takeover creates a Machine of machine-controller. Its server has a floating IP, own, which the Machine's annotation names. The
	// server of another Machine has another floating IP, foreign. takeover returns the Machine, the ID of its server, and the IDs of
	// both floating IPs.
	takeover := func(b *bench) (*v1alpha1.Machine, string, addresses) {
		m := newMachine(t, "a", seedFields().with("floatingIpPool", sim.MetaKubePool))
		_, other := b.active(newMachine(t, "other", seedFields()))
		p := b.plan(m)
		id := b.left(m, p)
		b.eventually("the server has its port", func() bool { s, _ := b.sim.Server(id); return s.Status == "ACTIVE" })
		a := addresses{b.address(p.PoolID, b.portOf(id)), b.address(p.PoolID, b.portOf(other.ID))}
		m.Annotations = map[string]string{v1alpha1.FinalizerFloatingIP: a.own}
		m.Spec.ProviderID = ptr.To("openstack:///" + id)
		b.restart()
		return m, id, a
	}
	there := func(b *bench, id string) bool { return slices.Contains(b.sim.Leftovers().FloatingIPs, id) }
	t.Run("only the floating IP that drover saw on the deleted server is deleted (MC-50, MC-68, F-3)", func(t *testing.T) {
		b := newBench(t)
		m, _, a := takeover(b)
		i := b.synced(m)
		b.eventually("the record has the floating IP", func() bool { s := b.observe(i).Server; return s != nil && recordOf(s).FloatingIPID == a.own })
		b.sim.ForgetCalls()
		b.remove(i)
		if there(b, a.own) || !there(b, a.foreign) || b.calls("POST /floatingips") != 0 {
			t.Errorf("its own exists: %v, the other one: %v", there(b, a.own), there(b, a.foreign))
		}
	})
	t.Run("a floating IP on another server stays, and is reported as left behind, even if the Machine's annotation names it (F-3)", func(t *testing.T) {
		b := newBench(t)
		m, _, a := takeover(b)
		m.Annotations[v1alpha1.FinalizerFloatingIP] = a.foreign
		b.guarded()
		b.restart()
		i := b.synced(m)
		released := b.gone(i)
		if !there(b, a.foreign) || len(released.Left) != 1 || !strings.Contains(released.Left[0], a.foreign) {
			t.Errorf("it exists: %v, named: %v", there(b, a.foreign), released.Left)
		}
	})
	t.Run("a floating IP that was never on the Machine's server stays, and is reported as left behind (F-3)", func(t *testing.T) {
		b := newBench(t)
		m, _, a := takeover(b)
		free := b.address(b.plan(m).PoolID, "")
		m.Annotations[v1alpha1.FinalizerFloatingIP] = free
		released := b.gone(b.synced(m))
		if !there(b, free) || !there(b, a.foreign) || len(released.Left) != 1 {
			t.Errorf("left %v, named %v", b.sim.Leftovers(), released.Left)
		}
	})
	t.Run("after the server is gone, the floating IP in the Machine's status is deleted when admission policies guard the status (F-3)", func(t *testing.T) {
		b := newBench(t)
		m, id, a := takeover(b)
		i := b.synced(m)
		b.records(m, b.observe(i).Server)
		b.stop()
		b.sim.DeleteServer(id)
		b.clock.Step(time.Minute)
		b.sim.ArchiveDeleted()
		b.guarded()
		b.start()
		released := b.gone(b.synced(m))
		if there(b, a.own) || !there(b, a.foreign) || len(released.Left) != 0 {
			t.Errorf("left %v, named %v", b.sim.Leftovers(), released.Left)
		}
	})
	t.Run("a floating IP's ID in an annotation is not used in a call to the cloud when the ID is not a UUID (F-3)", func(t *testing.T) {
		b := newBench(t)
		m, id, _ := takeover(b)
		m.Annotations[v1alpha1.FinalizerFloatingIP] = "../ports/" + b.portOf(id)
		b.guarded()
		b.restart()
		b.sim.ForgetCalls()
		released := b.gone(b.synced(m))
		if len(released.Left) != 1 {
			t.Errorf("named %v", released.Left)
		}
		for _, c := range b.sim.Calls() {
			if strings.Contains(c.Path, "..") || c.Method == http.MethodDelete && c.Service == string(client.Network) {
				t.Errorf("%s %s was sent", c.Method, c.Path)
			}
		}
	})
}

// gone deletes the Machine's server, releases its other resources, and returns the result of the release.
func (b *bench) gone(i cloud.Instance) (released cloud.Released) {
	b.t.Helper()
	b.eventually("everything is released", func() bool {
		if b.observe(i).Server != nil {
			if err := i.DeleteServer(b.ctx); err != nil {
				b.t.Fatal(err)
			}
			return false
		}
		var err error
		if released, err = i.Release(b.ctx); err != nil {
			b.t.Fatal(err)
		}
		return released.Done
	})
	return released
}

// valueOf returns the sum of a metric over all its series.
func valueOf(t *testing.T, from *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestServerCreatedByDroverIsNotTaggedAgainAndKeepsItsMetadata(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, s := b.active(newMachine(t, "a", seedFields().with("tags", map[string]string{"team": "blue"})))
	b.pass(time.Minute)
	if got := b.calls("POST /servers/{id}/metadata"); got != 0 {
		t.Errorf("a server of drover was tagged again, %d times", got)
	}
	var got struct {
		Server struct{ Metadata map[string]string }
	}
	b.raw(client.Compute, "GET", "servers/"+s.ID, nil, &got)
	if got.Server.Metadata["team"] != "blue" {
		t.Errorf("got %v", got)
	}
}

func TestDuplicateServerOfAMachine(t *testing.T) {
	t.Parallel()
	t.Run("is deleted, while the server in spec.providerID and the server of another owner stay (MCM-40)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		m.Spec.ProviderID = ptr.To(s.ProviderID)
		late, foreign := b.left(m, b.plan(m)), b.left(m, b.plan(m))
		for id, cluster := range map[string]string{late: testCluster, foreign: "another"} {
			b.raw(client.Compute, "POST", "servers/"+id+"/metadata", map[string]any{"metadata": map[string]string{state.MetadataClusterID: cluster}}, nil)
		}
		b.raw(client.Compute, "POST", "servers/"+foreign+"/metadata", map[string]any{"metadata": map[string]string{state.MetadataMachineUID: "another"}}, nil)
		b.instance(m)
		there := func(id string) bool { _, ok := b.sim.Server(id); return ok }
		b.pass(state.DuplicateAge / 2)
		if !there(late) {
			t.Fatal("the duplicate was deleted before the Machine could have named it")
		}
		b.eventually("the duplicate is deleted", func() bool { return !there(late) })
		b.pass(10 * time.Minute)
		if !there(s.ID) || !there(foreign) {
			t.Errorf("the named server exists: %v, the one of another owner: %v", there(s.ID), there(foreign))
		}
	})
	t.Run("stays while spec.providerID names another Machine's server, because drover cannot tell which server is the duplicate (MCM-40)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		m, other := newMachine(t, "a", seedFields()), newMachine(t, "b", seedFields())
		_, own := b.active(m)
		_, others := b.active(other)
		other.Spec.ProviderID = ptr.To(others.ProviderID)
		b.instance(other)
		second := b.left(m, b.plan(m))
		b.raw(client.Compute, "POST", "servers/"+second+"/metadata", map[string]any{"metadata": map[string]string{state.MetadataClusterID: testCluster}}, nil)
		m.Spec.ProviderID = ptr.To(others.ProviderID)
		b.instance(m)
		b.pass(20 * time.Minute)
		for _, id := range []string{own.ID, second, others.ID} {
			if _, ok := b.sim.Server(id); !ok {
				t.Errorf("server %s is gone", id)
			}
		}
	})
}

func TestPortMissingFromAListIsNotCreatedTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.synced(newMachine(t, "a", seedFields()))
	if err := i.ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.sim.Inject(sim.Fault{Call: "GET /ports", Status: 200, Body: `{"ports":[]}`, Times: 1})
	lists := b.calls("GET /ports")
	b.pass(state.AddressPeriod + 2*time.Minute)
	b.eventually("ports are listed again", func() bool { return b.calls("GET /ports") > lists })
	if err := i.ensurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	if got := b.calls("POST /ports"); got != 1 {
		t.Errorf("%d ports were created", got)
	}
	b.remove(i)
	b.nothingLeft()
}
