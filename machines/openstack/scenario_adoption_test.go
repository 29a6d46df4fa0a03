package openstack

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

// restored returns a Machine as a restore of the cluster creates it: with another UID, and without a status.
func restored(t *testing.T, name string) *v1alpha1.Machine {
	t.Helper()
	m := newMachine(t, name, fullFields())
	m.UID = types.UID("restored-" + name)
	return m
}

// allowing returns the Machine with an operator's permission to adopt a server.
func allowing(m *v1alpha1.Machine, server string) *v1alpha1.Machine {
	m.Annotations = map[string]string{v1alpha1.AnnotationAdopt: server}
	return m
}

func TestAdoptionOfAServer(t *testing.T) {
	t.Parallel()
	t.Run("a new Machine gets the server of a deleted Machine when an operator permits the adoption (F-1)", func(t *testing.T) {
		b := newBench(t)
		_, s := b.active(newMachine(t, "a", fullFields()))
		again := allowing(restored(t, "a"), s.ID)
		b.guarded()
		b.withReader(newReader(t, again))
		b.sim.ForgetCalls()
		i := b.synced(again)
		if f := b.observe(i); f.Server == nil || f.Server.ID != s.ID || f.Server.Owner != again.UID || !f.Server.Adopted {
			t.Fatalf("it has %+v", f)
		}
		if _, err := i.EnsureServer(b.ctx, nil); err != nil {
			t.Fatal(err)
		}
		if found := b.orphans(again); len(found) != 0 {
			t.Errorf("it counts as an orphan before it is tagged: %v", found)
		}
		b.eventually("the server is tagged", func() bool {
			got, _ := b.sim.Server(s.ID)
			return got.Metadata[state.MetadataMachineUID] == string(again.UID)
		})
		b.pass(20 * time.Minute)
		if found := b.orphans(again); len(found) != 0 || len(b.tagged()) != 3 {
			t.Errorf("the adopted resources are orphans: %v of %v", found, b.tagged())
		}
		for name, want := range map[string]int{"POST /servers": 0, "PUT /ports/{id}": 1, "PUT /floatingips/{id}": 1} {
			if got := b.calls(name); got != want {
				t.Errorf("%d × %s, want %d", got, name, want)
			}
		}
		if got, _ := b.sim.Server(s.ID); len(got.Floating) != 1 {
			t.Error("tagging disassociated the floating IP")
		}
		again.Annotations = nil
		b.restart()
		i = b.synced(again)
		if f := b.observe(i); f.Server.Adopted {
			t.Error("without the operator's permission the server counts as adopted")
		}
		b.once(t)
		b.remove(i)
		b.nothingLeft()
	})
	t.Run("no resource is lost or created twice when drover crashes while it tags the adopted server", func(t *testing.T) {
		b := newBench(t)
		_, s := b.active(newMachine(t, "a", fullFields()))
		again := allowing(restored(t, "a"), s.ID)
		b.guarded()
		b.sim.Inject(sim.Fault{Call: "POST /servers/{id}/metadata", Status: 500})
		b.withReader(newReader(t, again))
		b.observe(b.synced(again))
		b.eventually("the port is tagged and the server is not", func() bool { return b.calls("POST /servers/{id}/metadata") > 0 })
		b.sim.ClearFaults()
		b.restart()
		i := b.synced(again)
		if f := b.observe(i); f.Server == nil || f.Server.ID != s.ID {
			t.Fatalf("it has %+v", f)
		}
		b.eventually("the server is tagged", func() bool {
			got, _ := b.sim.Server(s.ID)
			return got.Metadata[state.MetadataMachineUID] == string(again.UID)
		})
		b.once(t)
		b.remove(i)
		b.nothingLeft()
	})
	t.Run("drover creates no server when an operator permits the adoption of a server that does not exist (F-1)", func(t *testing.T) {
		b := newBench(t)
		again := allowing(restored(t, "a"), "11111111-0000-4000-8000-000000000001")
		b.guarded()
		b.withReader(newReader(t, again))
		if f := b.observe(b.synced(again)); !strings.Contains(f.Unknown, "is not in") {
			t.Errorf("it has %+v", f)
		}
	})
}

func TestServersThatAreNotAdopted(t *testing.T) {
	t.Parallel()
	another := func(b *bench, server string) {
		b.raw(client.Compute, "POST", "servers/"+server+"/metadata", map[string]any{"metadata": map[string]string{state.MetadataClusterID: "another"}}, nil)
	}
	for _, c := range []struct {
		name string
		// allow adds an operator's permission to adopt the server to the Machine. unguarded turns the admission policies off.
		allow, unguarded bool
		// names sets the Machine's spec.providerID to the server's provider ID.
		names bool
		// others returns additional Machines. spoil changes the server before drover restarts.
		others func(t *testing.T) []ctrlclient.Object
		spoil  func(b *bench, server string)
	}{
		{name: "without an operator's permission, does not adopt the server that spec.providerID names (F-1)", names: true},
		{name: "without an operator's permission, does not adopt a server with the name of the Machine's server (F-1)"},
		{name: "does not adopt a server when no admission policy guards the annotation that permits the adoption (F-1)", names: true, allow: true, unguarded: true},
		{name: "does not adopt a server whose Machine exists in another namespace (F-1)", names: true, allow: true, others: func(t *testing.T) []ctrlclient.Object {
			m := newMachine(t, "a", fullFields())
			m.Namespace = "elsewhere"
			return []ctrlclient.Object{m}
		}},
		{name: "does not adopt a server of another cluster (F-1)", names: true, allow: true, spoil: another},
		{name: "does not adopt a server without the UID of a Machine (F-1)", names: true, allow: true, spoil: func(b *bench, server string) {
			b.raw(client.Compute, "DELETE", "servers/"+server+"/metadata/"+state.MetadataMachineUID, nil, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			_, s := b.active(newMachine(t, "a", fullFields()))
			again := restored(t, "a")
			if c.names {
				again.Spec.ProviderID = ptr.To(s.ProviderID)
			}
			if c.allow {
				allowing(again, s.ID)
			}
			there := []ctrlclient.Object{again}
			if c.others != nil {
				there = append(there, c.others(t)...)
			}
			if c.spoil != nil {
				c.spoil(b, s.ID)
			}
			before, _ := b.sim.Server(s.ID)
			if !c.unguarded {
				b.guarded()
			}
			b.withReader(newReader(t, there...))
			b.leavesAlone(again, s.ID, c.names)
			if got, _ := b.sim.Server(s.ID); got.Metadata[state.MetadataMachineUID] != before.Metadata[state.MetadataMachineUID] || got.Metadata[state.MetadataClusterID] != before.Metadata[state.MetadataClusterID] {
				t.Errorf("the server was tagged %v", got.Metadata)
			}
		})
	}
}

func TestServersThatAreNotDeletedAsOrphans(t *testing.T) {
	t.Parallel()
	for name, names := range map[string]bool{
		"does not delete a server with the name of an existing Machine's server (F-1)":         false,
		"does not delete a server that the spec.providerID of an existing Machine names (F-1)": true,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			_, s := b.active(newMachine(t, "a", fullFields()))
			again := restored(t, "a")
			if names {
				again.Name, again.Spec.ProviderID = "b", ptr.To(s.ProviderID)
			}
			b.withReader(newReader(t, again))
			b.synced(again)
			b.pass(30 * time.Minute)
			if found := b.orphans(again); len(found) != 0 || len(b.tagged()) != 3 {
				t.Errorf("orphans %v of %v", found, b.tagged())
			}
		})
	}
}

// leavesAlone fails the test if a call for the Machine changes the server. If says is true, Facts.Foreign must name the server.
func (b *bench) leavesAlone(m *v1alpha1.Machine, server string, says bool) {
	b.t.Helper()
	i := b.synced(m)
	b.sim.ForgetCalls()
	f := b.observe(i)
	if f.Server != nil || f.Gone || f.Had != "" || len(f.Duplicates) > 0 || (f.Foreign != "") != says || says && !strings.Contains(f.Foreign, server) {
		b.t.Errorf("it has %+v", f)
	}
	for what, err := range map[string]error{"deletion": i.DeleteServer(b.ctx), "deletion of what failed": i.DeleteFailed(b.ctx)} {
		if err != nil {
			b.t.Errorf("%s: %v", what, err)
		}
	}
	if text, err := i.ConsoleOutput(b.ctx, 1000); err == nil {
		b.t.Errorf("the console was read: %q", text)
	}
	b.pass(state.TagAgain + 2*time.Minute)
	if released, err := i.Release(b.ctx); err != nil || !released.Done {
		b.t.Errorf("the Machine's own resources cannot be released: %+v, %v", released, err)
	}
	if s, there := b.sim.Server(server); !there || s.Status != "ACTIVE" {
		b.t.Errorf("the server is %q", s.Status)
	}
	for _, c := range b.sim.Calls() {
		if c.Method != http.MethodGet && c.Service != string(client.Identity) {
			b.t.Errorf("%s %s was sent", c.Method, c.Path)
		}
	}
}

func TestServerWhoseIDIsInSpecProviderID(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]map[string]string{
		"is not changed when it has no owner tag, such as a server of a control plane (F-1)":             {},
		"is not changed when it belongs to another cluster's drover (F-1)":                               {state.MetadataMachineUID: "foreign", state.MetadataClusterID: "another"},
		"is not changed when it has the Machine's UID and the ID of another cluster (F-1)":               {state.MetadataMachineUID: "uid-thief", state.MetadataClusterID: "another"},
		"is not changed when it belongs to another cluster's machine-controller (F-1)":                   {state.MetadataMachineUID: "foreign"},
		"is not changed when it belongs to a Machine that was not reconciled since drover's start (F-1)": {state.MetadataMachineUID: "paused", state.MetadataClusterID: testCluster},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
			thief := newMachine(t, "thief", seedFields())
			b.synced(thief)
			victim := b.server("thief", metadata, b.plan(thief))
			for _, text := range []string{"openstack:///" + victim, "openstack:///" + strings.ToUpper(victim)} {
				thief.Spec.ProviderID = ptr.To(text)
				b.restart()
				b.leavesAlone(thief, victim, true)
			}
		})
	}
	t.Run("does not take the place of the server that has the Machine's owner tag (F-1)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		thief := newMachine(t, "thief", seedFields())
		_, own := b.active(thief)
		victim := b.server("control-plane", nil, b.plan(thief))
		thief.Spec.ProviderID = ptr.To("openstack:///" + victim)
		b.restart()
		i := b.synced(thief)
		f := b.observe(i)
		if f.Server == nil || f.Server.ID != own.ID || !strings.Contains(f.Foreign, victim) {
			t.Errorf("it has %+v", f)
		}
		b.remove(i)
		if left := b.sim.Leftovers().Servers; len(left) != 1 || left[0] != victim {
			t.Errorf("left %v, want %s alone", left, victim)
		}
	})
	t.Run("is never looked up in the cloud when the provider ID has no UUID, because drover refuses such an ID (F-20)", func(t *testing.T) {
		b := newBench(t)
		for _, text := range []string{"openstack:///ab-1", "aws:///zone/i-1", "openstack:///../ports/11111111-0000-4000-8000-000000000001"} {
			m := newMachine(t, "a", seedFields())
			m.Spec.ProviderID = ptr.To(text)
			i := b.instance(m)
			b.eventually("the provider ID is refused", func() bool {
				f, err := i.Observe(b.ctx)
				return err != nil && !f.Synced && strings.Contains(err.Error(), "openstack:///UUID")
			})
		}
		for _, c := range b.sim.Calls() {
			if strings.Contains(c.Path, "ab-1") || strings.Contains(c.Path, "..") {
				t.Errorf("%s %s was sent", c.Method, c.Path)
			}
		}
	})
	t.Run("is recognized as the Machine's own server even when the provider ID has the UUID in upper case (F-20)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", seedFields())
		_, s := b.active(m)
		b.records(m, s)
		m.Spec.ProviderID = ptr.To("OpenStack:///" + strings.ToUpper(s.ID))
		b.restart()
		if f := b.observe(b.synced(m)); f.Server == nil || f.Server.ID != s.ID || f.Gone || b.calls("GET /servers/{id}") != 0 {
			t.Errorf("it has %+v after %d GETs", f, b.calls("GET /servers/{id}"))
		}
	})
}

// Two clusters share a project. The second cluster was restored from a backup of the first. So its Machines have the same UIDs and
// status, but it has its own cluster ID.
func TestTwoClustersInOneProject(t *testing.T) {
	t.Parallel()
	t.Run("neither cluster touches the other cluster's servers (F-1)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime = 0 })
		servers, machines := b.fleet(3)
		b.stop()
		b.options.ClusterID = "cluster-2"
		b.guarded()
		b.start()
		for n, m := range machines {
			again := m.DeepCopy()
			allowing(again, servers[n].ID)
			b.leavesAlone(again, servers[n].ID, true)
		}
		own := newMachine(t, "m0", seedFields())
		own.UID = machines[0].UID
		_, second := b.active(own)
		b.pass(20 * time.Minute)
		b.stop()
		b.options.ClusterID = testCluster
		b.start()
		stolen := machines[1].DeepCopy()
		stolen.Spec.ProviderID = ptr.To(second.ProviderID)
		f := b.observe(b.synced(stolen))
		if f.Server == nil || f.Server.ID != servers[1].ID || !strings.Contains(f.Foreign, "another cluster") {
			t.Errorf("the first cluster's Machine has %+v", f)
		}
		for _, m := range machines {
			b.remove(b.synced(m))
		}
		if left := b.sim.Leftovers(); len(left.Servers) != 1 || left.Servers[0] != second.ID || len(left.Ports) != 1 {
			t.Errorf("the first cluster left %+v, want the second cluster's server %s with its port", left, second.ID)
		}
	})
}
