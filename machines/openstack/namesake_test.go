package openstack

import (
	"testing"
	"time"

	"github.com/drover-project/drover/machines/openstack/client"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// restored is a Machine as a restore of the cluster brings it back: with another UID, and without what the status knew.
func restored(t *testing.T, name string) *v1alpha1.Machine {
	t.Helper()
	m := newMachine(t, name, fullFields())
	m.UID = types.UID("restored-" + name)
	return m
}

func TestAServerWhoseNameBelongsToALivingMachineIsMarkedAgain(t *testing.T) {
	b := newBench(t)
	_, s := b.active(newMachine(t, "a", fullFields()))
	again := restored(t, "a")
	b.withReader(newReader(t, again))
	b.sim.ForgetCalls()
	i := b.synced(again)
	if f := b.observe(i); f.Server == nil || f.Server.ID != s.ID || f.Server.Owner != again.UID {
		t.Fatalf("it has %+v", f)
	}
	if _, err := i.EnsureServer(b.ctx, nil); err != nil {
		t.Fatal(err)
	}
	living := map[types.UID]bool{again.UID: true}
	for _, r := range b.cloud.Marked() {
		if r.Machine != again.UID {
			t.Errorf("%s %s counts as another's before it is marked", r.Kind, r.ID)
		}
	}
	b.eventually("the server is marked", func() bool {
		got, _ := b.sim.Server(s.ID)
		return got.Metadata[metadataMachineUID] == string(again.UID)
	})
	b.pass(20 * time.Minute)
	if v := JudgeOrphans(b.cloud.Marked(), living, b.clock.Now(), false); len(v.Orphans) != 0 {
		t.Errorf("what was taken over is no orphan: %v", v.Orphans)
	}
	for name, want := range map[string]int{"POST /servers": 0, "PUT /ports/{id}": 1, "PUT /floatingips/{id}": 1} {
		if got := b.calls(name); got != want {
			t.Errorf("%d × %s, want %d", got, name, want)
		}
	}
	if got, _ := b.sim.Server(s.ID); len(got.Floating) != 1 {
		t.Error("the address came off when it was marked")
	}
	b.restart()
	i = b.synced(again)
	b.once(t)
	b.remove(i)
	b.nothingLeft()
}

func TestACrashWhileAServerIsMarkedAgainLosesNothing(t *testing.T) {
	b := newBench(t)
	_, s := b.active(newMachine(t, "a", fullFields()))
	again := restored(t, "a")
	b.sim.Inject(sim.Fault{Call: "POST /servers/{id}/metadata", Status: 500})
	b.withReader(newReader(t, again))
	b.synced(again)
	b.eventually("the port is marked and the server is not", func() bool { return b.calls("POST /servers/{id}/metadata") > 0 })
	b.sim.ClearFaults()
	b.restart()
	i := b.synced(again)
	if f := b.observe(i); f.Server == nil || f.Server.ID != s.ID {
		t.Fatalf("it has %+v", f)
	}
	b.eventually("the server is marked", func() bool {
		got, _ := b.sim.Server(s.ID)
		return got.Metadata[metadataMachineUID] == string(again.UID)
	})
	b.once(t)
	b.remove(i)
	b.nothingLeft()
}

func TestWhoseNameAloneIsNoReason(t *testing.T) {
	for _, c := range []struct {
		name string
		// others are Machines that are there too; spoil changes what is known before the restart.
		others func(t *testing.T) []ctrlclient.Object
		spoil  func(b *bench, server string)
	}{
		{name: "the Machine whose mark it bears lives, elsewhere", others: func(t *testing.T) []ctrlclient.Object {
			m := newMachine(t, "a", fullFields())
			m.Namespace = "elsewhere"
			return []ctrlclient.Object{m}
		}},
		{name: "it bears another cluster's mark", spoil: func(b *bench, server string) {
			b.raw(client.Compute, "POST", "servers/"+server+"/metadata", map[string]any{"metadata": map[string]string{metadataClusterID: "another"}}, nil)
		}},
		{name: "it bears no cluster's mark", spoil: func(b *bench, server string) {
			b.raw(client.Compute, "DELETE", "servers/"+server+"/metadata/"+metadataClusterID, nil, nil)
		}},
		{name: "it is in ERROR", spoil: func(b *bench, server string) { b.sim.FailServer(server, "No valid host was found.") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			_, s := b.active(newMachine(t, "a", fullFields()))
			again := restored(t, "a")
			there := []ctrlclient.Object{again}
			if c.others != nil {
				there = append(there, c.others(t)...)
			}
			if c.spoil != nil {
				c.spoil(b, s.ID)
			}
			b.withReader(newReader(t, there...))
			i := b.synced(again)
			if f := b.observe(i); f.Server != nil || f.Gone {
				t.Errorf("it has %+v", f)
			}
			b.pass(2 * time.Minute)
			if got, _ := b.sim.Server(s.ID); got.Metadata[metadataMachineUID] != "uid-a" {
				t.Errorf("it is marked %v", got.Metadata)
			}
		})
	}
}

// A paused Machine asks for nothing, and a copy of it, as a restore into another namespace makes one, names its server.
func TestACopyDoesNotTakeTheServerOfAMachineThatNobodyHasLookedAtYet(t *testing.T) {
	b := newBench(t)
	paused := newMachine(t, "a", fullFields())
	_, s := b.active(paused)
	copied := restored(t, "a")
	copied.Namespace, copied.Spec.ProviderID = "elsewhere", ptr.To(s.ProviderID)
	b.withReader(newReader(t, paused, copied))
	b.synced(copied)
	b.pass(adoptAgain + 2*time.Minute)
	if got, _ := b.sim.Server(s.ID); got.Metadata[metadataMachineUID] != string(paused.UID) {
		t.Errorf("the server is marked %v", got.Metadata)
	}
	for _, name := range []string{"PUT /ports/{id}", "PUT /floatingips/{id}"} {
		if got := b.calls(name); got != 0 {
			t.Errorf("%d × %s", got, name)
		}
	}
}

func TestAMachineThatHasMadeSomethingTakesNoOtherServer(t *testing.T) {
	b := newBench(t)
	b.active(newMachine(t, "a", fullFields()))
	again := restored(t, "a")
	again.Name = "b"
	b.withReader(newReader(t, again))
	if err := b.synced(again).EnsurePorts(b.ctx); err != nil {
		t.Fatal(err)
	}
	again.Name = "a"
	b.restart()
	if f := b.observe(b.synced(again)); f.Server != nil {
		t.Errorf("it has a port of its own, and takes %+v", f.Server)
	}
}
