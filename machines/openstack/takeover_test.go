package openstack

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// raw makes a call as somebody else in the project would.
func (b *bench) raw(s client.Service, method, path string, body, into any) {
	b.t.Helper()
	creds := b.credentials()
	conn, err := b.cloud.connect(b.ctx, &access{creds: &creds}, nil)
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

// plan resolves a spec as the driver would.
func (b *bench) plan(m *v1alpha1.Machine) *plan {
	b.t.Helper()
	i, ok := b.instance(m).(*instance)
	if !ok {
		b.t.Fatal("no instance of ours")
	}
	p, err := i.connection.catalog.resolve(b.ctx, i.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// left makes a server as machine-controller leaves it: a port of Nova's making, no tags, the Machine's UID as its only mark.
func (b *bench) left(m *v1alpha1.Machine, p *plan) string {
	b.t.Helper()
	var made struct {
		Server struct{ ID string } `json:"server"`
	}
	b.raw(client.Compute, "POST", "servers", map[string]any{"server": map[string]any{
		"name": m.Name, "flavorRef": p.flavor.ID, "imageRef": p.image.ID, "networks": []any{map[string]any{"uuid": p.networks[0].network}},
		"metadata": map[string]string{metadataMachineUID: string(m.UID), "system-cluster": "mmxfcmgjkx"},
	}}, &made)
	return made.Server.ID
}

func TestTakeOverOfWhatMachineControllerLeaves(t *testing.T) {
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
			t.Fatalf("%s: what is there is adopted: %v", m.Name, err)
		}
	}
	marked := func() int {
		n := 0
		for _, s := range b.sim.Servers() {
			if s.Metadata[metadataClusterID] == testCluster && s.Metadata["system-cluster"] != "" && living[types.UID(s.Metadata[metadataMachineUID])] {
				n++
			}
		}
		return n
	}
	b.eventually("CAPI-54 all are marked", func() bool { return marked() == n })
	b.pass(20 * time.Minute)
	for name, want := range map[string]int{
		"POST /servers": 0, "POST /ports": 0, "DELETE /servers/{id}": 0, "DELETE /ports/{id}": 0, "POST /servers/{id}/metadata": n, "GET /servers/{id}": 0,
	} {
		if got := b.calls(name); got != want {
			t.Errorf("CAPI-54: %d × %s, want %d", got, name, want)
		}
	}
	if v := JudgeOrphans(b.cloud.Marked(), living, b.clock.Now(), false); len(v.Orphans) != 0 {
		t.Errorf("none is collected: %v", v.Orphans)
	}
}

func TestAServerThatOnlyAMachineNamesIsMarked(t *testing.T) {
	t.Run("MCM-85 unless it is another cluster's", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		old := newMachine(t, "a", seedFields())
		b.synced(old)
		id := b.left(old, b.plan(old))
		foreign := b.left(newMachine(t, "b", seedFields()), b.plan(old))
		b.raw(client.Compute, "POST", "servers/"+foreign+"/metadata", map[string]any{"metadata": map[string]string{metadataClusterID: "another"}}, nil)
		b.restart()
		restored, claims := newMachine(t, "a", seedFields()), newMachine(t, "b", seedFields())
		restored.UID, claims.UID = "uid-new", "uid-claims"
		restored.Spec.ProviderID, claims.Spec.ProviderID = ptr.To("openstack:///"+id), ptr.To("openstack:///"+foreign)
		b.synced(restored)
		b.synced(claims)
		b.eventually("it is marked with the Machine's new UID", func() bool {
			s, _ := b.sim.Server(id)
			return s.Metadata[metadataMachineUID] == "uid-new" && s.Metadata[metadataClusterID] == testCluster
		})
		b.pass(2 * time.Minute)
		if s, _ := b.sim.Server(foreign); s.Metadata[metadataClusterID] != "another" || s.Metadata[metadataMachineUID] != "uid-b" {
			t.Errorf("another cluster's server was marked: %v", s.Metadata)
		}
	})
}

func TestAnAddressThatMachineControllerMadeGoesWithTheMachine(t *testing.T) {
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("floatingIpPool", sim.MetaKubePool))
	b.synced(m)
	p := b.plan(m)
	make := func() string {
		var made struct {
			FloatingIP struct{ ID string } `json:"floatingip"`
		}
		b.raw(client.Network, "POST", "floatingips", map[string]any{"floatingip": map[string]any{"floating_network_id": p.pool}}, &made)
		return made.FloatingIP.ID
	}
	own, foreign := make(), make()
	m.Annotations = map[string]string{v1alpha1.FinalizerFloatingIP: own}
	b.sim.ForgetCalls()
	i, _ := b.active(m)
	if got := b.calls("POST /floatingips"); got != 0 {
		t.Errorf("MC-50: %d more addresses were made", got)
	}
	if !b.observe(i).Leftovers {
		t.Error("the address is a leftover")
	}
	b.remove(i)
	if left := b.sim.Leftovers(); len(left.FloatingIPs) != 1 || left.FloatingIPs[0] != foreign || len(left.Servers)+len(left.Ports) != 0 {
		t.Errorf("MC-50 MC-68: left %+v, want only the foreign address %s", left, foreign)
	}
}

func TestMachinesThatAreNoMoreAreForgotten(t *testing.T) {
	b := newBench(t)
	here, gone := newMachine(t, "here", seedFields()), newMachine(t, "gone", seedFields())
	b.withReader(newReader(t, here))
	b.synced(here)
	b.synced(gone)
	b.pass(fullPeriod)
	b.eventually("the one that was let go by force is forgotten", func() bool {
		_, known := b.cloud.machines.get(gone.UID)
		return !known
	})
	if _, known := b.cloud.machines.get(here.UID); !known {
		t.Error("the one that is there was forgotten")
	}
}

// valueOf sums a metric over its labels.
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

func TestADeletionThatIsStuckIsForced(t *testing.T) {
	for name, refuse := range map[string]bool{"CAPI-44 MC-64 by force from the fourth time on, and shows in a metric": false, "a cloud that does not let us force is asked politely": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.DeleteTime = 24 * time.Hour })
			registry := prometheus.NewRegistry()
			b.options.Registry = registry
			b.restart()
			i, _ := b.active(newMachine(t, "a", seedFields()))
			if refuse {
				b.sim.Inject(sim.Fault{Call: "POST /servers/{id}/action", Status: 403})
			}
			for round := range 5 {
				if err := i.DeleteServer(b.ctx); err != nil {
					t.Fatal(err)
				}
				b.pass(6 * time.Minute)
				if n := valueOf(t, registry, "drover_openstack_stuck_deletions"); round == 0 && n != 0 || round == 2 && n != 1 {
					t.Errorf("after %d × 6 minutes the metric shows %v stuck deletions", round+1, n)
				}
			}
			polite, forced := 3, 1
			if refuse {
				polite, forced = 5, 2
			}
			if p, f := b.calls("DELETE /servers/{id}"), b.calls("POST /servers/{id}/action"); p != polite || f != forced {
				t.Errorf("%d polite, %d by force", p, f)
			}
		})
	}
}

func TestTheGroupOfAMachineIsItsDeployment(t *testing.T) {
	owned := func(set, hash string) *v1alpha1.Machine {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
		if set != "" {
			m.OwnerReferences = []metav1.OwnerReference{{Name: set, Controller: ptr.To(true)}}
		}
		if hash != "" {
			m.Labels = map[string]string{v1alpha1.LabelTemplateHash: hash}
		}
		return m
	}
	for want, m := range map[string]*v1alpha1.Machine{
		"n/workers": owned("workers-12345", "12345"), "n/bare": owned("bare", ""), "n/": owned("", ""),
	} {
		if got := groupOfMachine(m); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWarningsNameWhatHasNoEffect(t *testing.T) {
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("trustDevicePath", true).with("NodeVolumeAttachLimit", 25))
	got := b.instance(m).Warnings()
	if len(got) != 2 || got[0] != "Machine kube-system/a: spec.providerSpec.value.cloudProviderSpec.NodeVolumeAttachLimit: has no effect (the limit is an option of the Cinder CSI driver); it may be removed" {
		t.Errorf("got %q", got)
	}
	m = newMachine(t, "a", seedFields().with("flaver", "x"))
	m.Spec.ProviderID = ptr.To("openstack:///" + "11111111-0000-0000-0000-000000000001")
	if got := b.instance(m).Warnings(); len(got) != 1 {
		t.Errorf("an unknown key of a Machine with a server is a warning: %q", got)
	}
	if got := b.instance(newMachine(t, "a", seedFields())).Warnings(); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

func TestMetadataIsWrittenOverAndNothingElse(t *testing.T) {
	b := newBench(t)
	_, s := b.active(newMachine(t, "a", seedFields().with("tags", map[string]string{"team": "blue"})))
	b.pass(time.Minute)
	if got := b.calls("POST /servers/{id}/metadata"); got != 0 {
		t.Errorf("a server of our own making was marked again, %d times", got)
	}
	var got struct {
		Server struct{ Metadata map[string]string }
	}
	b.raw(client.Compute, "GET", "servers/"+s.ID, nil, &got)
	if got.Server.Metadata["team"] != "blue" {
		t.Errorf("got %v", got)
	}
}

func TestADuplicateGoesAndTheNamedOneStays(t *testing.T) {
	t.Run("MCM-40 and nobody else's goes", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		m.Spec.ProviderID = ptr.To(s.ProviderID)
		late, stranger := b.left(m, b.plan(m)), b.left(m, b.plan(m))
		for id, cluster := range map[string]string{late: testCluster, stranger: "another"} {
			b.raw(client.Compute, "POST", "servers/"+id+"/metadata", map[string]any{"metadata": map[string]string{metadataClusterID: cluster}}, nil)
		}
		b.raw(client.Compute, "POST", "servers/"+stranger+"/metadata", map[string]any{"metadata": map[string]string{metadataMachineUID: "another"}}, nil)
		b.instance(m)
		there := func(id string) bool { _, ok := b.sim.Server(id); return ok }
		b.pass(duplicateAge / 2)
		if !there(late) {
			t.Fatal("it went before the Machine could have named it")
		}
		b.eventually("the duplicate goes", func() bool { return !there(late) })
		b.pass(10 * time.Minute)
		if !there(s.ID) || !there(stranger) {
			t.Errorf("the named one is there: %v, a stranger's: %v", there(s.ID), there(stranger))
		}
	})
	t.Run("MCM-40 and none goes of a Machine that names another one's server", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		m, other := newMachine(t, "a", seedFields()), newMachine(t, "b", seedFields())
		_, own := b.active(m)
		_, others := b.active(other)
		other.Spec.ProviderID = ptr.To(others.ProviderID)
		b.instance(other)
		second := b.left(m, b.plan(m))
		b.raw(client.Compute, "POST", "servers/"+second+"/metadata", map[string]any{"metadata": map[string]string{metadataClusterID: testCluster}}, nil)
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

func TestAPortThatAListOmitsIsNotMadeTwice(t *testing.T) {
	b := newBench(t)
	i := b.synced(newMachine(t, "a", seedFields()))
	if err := i.EnsurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.sim.Inject(sim.Fault{Call: "GET /ports", Status: 200, Body: `{"ports":[]}`, Times: 1})
	lists := b.calls("GET /ports")
	b.pass(ownedPeriod + 2*time.Minute)
	if b.calls("GET /ports") == lists {
		t.Fatal("ports were not listed again")
	}
	if err := i.EnsurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	if got := b.calls("POST /ports"); got != 1 {
		t.Errorf("%d ports were made", got)
	}
	b.remove(i)
	b.nothingLeft()
}
