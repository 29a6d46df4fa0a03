package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// tagged returns the resources with owner tags in all projects.
func (b *bench) tagged() (all []cloud.Resource) {
	b.t.Helper()
	for _, p := range b.cloud.Tagged(b.ctx) {
		all = append(all, p.Resources...)
	}
	return all
}

// orphans returns the IDs of the resources that the orphan collector would delete if only these Machines existed, and the ends of all
// others had been observed.
func (b *bench) orphans(machines ...*v1alpha1.Machine) (ids []string) {
	b.t.Helper()
	s := &verdict.Snapshot{Now: b.clock.Now().Add(time.Hour), Projects: b.cloud.Tagged(b.ctx), Ends: verdict.Ends{}}
	for _, r := range b.tagged() {
		s.Ends[r.Machine] = verdict.End{UID: r.Machine, Time: b.clock.Now(), Confirmed: true}
	}
	for _, m := range machines {
		s.Machines = append(s.Machines, verdict.Machine{UID: m.UID, ServerName: m.ServerName(), Server: b.cloud.ServerID(providerIDOf(m))})
	}
	v := verdict.Judge(s)
	for _, o := range v.Orphans {
		if o.Delete {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

func providerIDOf(m *v1alpha1.Machine) string {
	if m.Spec.ProviderID == nil {
		return ""
	}
	return *m.Spec.ProviderID
}

// leftBy creates a server with a port and a floating IP, and returns these three resources by kind. Their Machine no longer exists.
func (b *bench) leftBy() map[cloud.ResourceKind]cloud.Resource {
	b.t.Helper()
	b.active(newMachine(b.t, "gone", fullFields()))
	b.restart()
	b.synced(newMachine(b.t, "other", seedFields()))
	all := map[cloud.ResourceKind]cloud.Resource{}
	for _, r := range b.tagged() {
		all[r.Kind] = r
	}
	if len(all) != 3 {
		b.t.Fatalf("there are %v", all)
	}
	return all
}

func TestListOfResourcesWithOwnerTags(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := b.leftBy()
	server := all[cloud.ResourceServer]
	if server.Machine != "uid-gone" || server.Name != "gone" || server.Key != cloud.ServerID(server.ID) {
		t.Errorf("the server is %+v", server)
	}
	for _, kind := range []cloud.ResourceKind{cloud.ResourcePort, cloud.ResourceFloatingIP} {
		if r := all[kind]; r.UsedBy != server.ID || r.Machine != "uid-gone" {
			t.Errorf("it is %+v, want one on server %s", r, server.ID)
		}
	}
	t.Run("the list has no resource without both owner tags of this cluster (MCM-85)", func(t *testing.T) {
		p := b.plan(newMachine(t, "x", seedFields()))
		foreign := []string{
			b.server("without-marks", nil, p),
			b.server("of-machine-controller", map[string]string{state.MetadataMachineUID: "uid-gone"}, p),
			b.server("of-another-cluster", map[string]string{state.MetadataMachineUID: "uid-gone", state.MetadataClusterID: "another"}, p),
			b.server("without-a-machine", map[string]string{state.MetadataClusterID: testCluster}, p),
		}
		b.pass(state.AddressPeriod + time.Minute)
		for _, r := range b.tagged() {
			if slices.Contains(foreign, r.ID) || r.Machine != "uid-gone" {
				t.Errorf("it has %+v", r)
			}
		}
	})
	t.Run("the list is made from drover's inventory, without a call to the cloud (CAPI-59)", func(t *testing.T) {
		b.sim.ForgetCalls()
		b.tagged()
		if n := b.calls(); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestCollectDeletesOnlyOrphans(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := b.leftBy()
	server, port, ip := all[cloud.ResourceServer], all[cloud.ResourcePort], all[cloud.ResourceFloatingIP]
	refused := func(t *testing.T, r cloud.Resource, why string) {
		t.Helper()
		before := b.sim.Leftovers()
		if err := b.cloud.Collect(b.ctx, r); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), why) {
			t.Errorf("collecting %s %s: %v", r.Kind, r.ID, err)
		}
		if after := b.sim.Leftovers(); !slices.Equal(after.Servers, before.Servers) || !slices.Equal(after.Ports, before.Ports) || !slices.Equal(after.FloatingIPs, before.FloatingIPs) {
			t.Errorf("there were %+v, there are %+v", before, after)
		}
	}
	t.Run("keeps the port and the floating IP of a server that exists (MCM-84)", func(t *testing.T) {
		refused(t, port, "exists")
		refused(t, ip, "exists")
	})
	t.Run("refuses to delete a resource for Machine A when the resource's owner tag names Machine B (MCM-85, CAPI-59)", func(t *testing.T) {
		for _, r := range all {
			r.Machine = "uid-another"
			refused(t, r, "does not name")
		}
	})
	t.Run("keeps a server whose owner tag was changed after drover listed the server (MCM-85)", func(t *testing.T) {
		b.raw(client.Compute, "POST", "servers/"+server.ID+"/metadata", map[string]any{"metadata": map[string]string{state.MetadataClusterID: "another"}}, nil)
		refused(t, server, "does not name")
		b.raw(client.Compute, "POST", "servers/"+server.ID+"/metadata", map[string]any{"metadata": map[string]string{state.MetadataClusterID: testCluster}}, nil)
	})
	t.Run("deletes an orphaned server, and then its port and floating IP, with one call each (CAPI-59)", func(t *testing.T) {
		b.sim.ForgetCalls()
		if err := b.cloud.Collect(b.ctx, server); err != nil {
			t.Fatal(err)
		}
		b.eventually("the lists show that the server is gone", func() bool {
			return !slices.ContainsFunc(b.tagged(), func(r cloud.Resource) bool { return r.Kind == cloud.ResourceServer || r.UsedBy != "" })
		})
		for _, r := range []cloud.Resource{ip, port} {
			if err := b.cloud.Collect(b.ctx, r); err != nil {
				t.Error(err)
			}
		}
		b.nothingLeft()
		if rest := b.tagged(); len(rest) > 0 {
			t.Errorf("still known are %v", rest)
		}
		for _, r := range all {
			if err := b.cloud.Collect(b.ctx, r); err != nil {
				t.Errorf("collecting again what is gone: %v", err)
			}
		}
		for _, call := range []string{"DELETE /servers/{id}", "DELETE /ports/{id}", "DELETE /floatingips/{id}"} {
			if n := b.calls(call); n != 1 {
				t.Errorf("%d × %s", n, call)
			}
		}
	})
}

func TestIsServerGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, s := b.active(newMachine(t, "a", seedFields()))
	gone := func(providerID, place string) (bool, error) {
		return b.cloud.IsServerGone(context.Background(), providerID, place)
	}
	t.Run("returns an error in the first minute after drover's start, because drover may not know all projects yet (MCM-86)", func(t *testing.T) {
		if is, err := gone(s.ProviderID, ""); is || !fault.Is(err, fault.Transient) {
			t.Errorf("gone: %v, %v", is, err)
		}
	})
	b.pass(2 * time.Minute)
	t.Run("returns false for a server that exists (MCM-86)", func(t *testing.T) {
		if is, err := gone(s.ProviderID, ""); is || err != nil {
			t.Errorf("gone: %v, %v", is, err)
		}
	})
	t.Run("returns false for a server that a list lacks and a GET finds (MCM-86)", func(t *testing.T) {
		b.sim.LoseCell("cell1")
		b.pass(state.FullPeriod + 2*time.Minute)
		b.sim.RestoreCells()
		if is, err := gone(s.ProviderID, ""); is || err != nil {
			t.Errorf("gone: %v, %v", is, err)
		}
	})
	t.Run("returns true, after one GET, for a server that does not exist (MCM-86)", func(t *testing.T) {
		b.pass(2 * state.FullPeriod)
		b.sim.ForgetCalls()
		if is, err := gone(provider.ID{Server: "6dd3a5a1-4e0d-4f2f-9a52-000000000000"}.String(), ""); !is || err != nil {
			t.Errorf("gone: %v, %v", is, err)
		}
		if n := b.calls("GET /servers/{id}"); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	t.Run("asks only in the recorded project, and returns an error when drover has no credentials for it (MCM-86)", func(t *testing.T) {
		absent := provider.ID{Server: "6dd3a5a1-4e0d-4f2f-9a52-000000000000"}.String()
		m := newMachine(t, "recorded", seedFields())
		m.Status.ProviderStatus = s.Record.MergeInto(nil)
		if is, err := gone(absent, b.cloud.Remembered(m).Place); !is || err != nil {
			t.Errorf("gone: %v, %v", is, err)
		}
		if is, err := gone(absent, "unknown region"); is || !fault.Is(err, fault.Transient) || !strings.Contains(err.Error(), "no credentials") {
			t.Errorf("gone from a project without credentials: %v, %v", is, err)
		}
	})
	t.Run("returns an error for another cloud's server (MCM-86)", func(t *testing.T) {
		if is, err := gone("aws:///zone/i-1", ""); is || err == nil {
			t.Errorf("gone: %v, %v", is, err)
		}
	})
}
