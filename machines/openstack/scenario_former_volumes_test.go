package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/provider"
	sim "github.com/drover-project/drover/test/openstack"
)

// merged returns the Machine's status.providerStatus with the record of a server.
func merged(m *v1alpha1.Machine, s *cloud.Server) *runtime.RawExtension {
	return s.Record.MergeInto(m.Status.ProviderStatus)
}

// recordIn returns the record in the Machine's status.
func recordIn(m *v1alpha1.Machine) provider.Record { return provider.RecordOf(m) }

// failBuild creates the Machine's server with its boot volume, lets it fail, records it in the Machine, and deletes it. It returns the
// instance of the Machine for the next attempt, after the list of servers shows that the failed server is gone.
func (b *bench) failBuild(m *v1alpha1.Machine) *instance {
	b.t.Helper()
	i := b.synced(m)
	if _, err := b.make(i); err != nil {
		b.t.Fatal(err)
	}
	b.eventually("the server has its volume", func() bool {
		s := b.observe(i).Server
		return s != nil && len(recordOf(s).VolumeIDs) > 0
	})
	b.sim.FailServer(b.observe(i).Server.ID, "Build of instance aborted: volume did not finish being created")
	b.eventually("the server is in ERROR", func() bool { return b.observe(i).Server.State == cloud.ServerError })
	m.Status.ProviderStatus = merged(m, b.observe(i).Server)
	if err := i.DeleteFailed(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	i = b.instance(m)
	b.eventually("the server is gone", func() bool { return b.observe(i).Server == nil })
	return b.instance(m)
}

func TestVolumesThatFailedServersLeaveBehind(t *testing.T) {
	t.Parallel()
	leaves := func(c *sim.Config) { c.FailedBuildsLeaveVolumes = true }
	withVolume := func() fields { return seedFields().with("rootDiskSizeGB", 20) }
	t.Run("are deleted before the next server of the Machine is created, and leave its record (M.2)", func(t *testing.T) {
		b := newBench(t, leaves)
		m := newMachine(t, "a", withVolume())
		var i *instance
		for range 3 {
			i = b.failBuild(m)
			if got := len(b.sim.Leftovers().Volumes); got != 1 {
				t.Fatalf("%d volumes before the next server, want that of the last one", got)
			}
		}
		s, err := b.make(i)
		if err != nil {
			t.Fatal(err)
		}
		m.Status.ProviderStatus = merged(m, s)
		b.eventually("the next server has its volume", func() bool {
			s := b.observe(i).Server
			m.Status.ProviderStatus = merged(m, s)
			return len(recordOf(s).VolumeIDs) > 0
		})
		// Cinder has accepted the deletion of the last one before. Only the next attempt, or the end of the Machine, sees that it is gone.
		left, recorded := b.sim.Leftovers().Volumes, recordIn(m).VolumeIDs
		if len(left) != 1 || !slices.Contains(recorded, left[0]) || len(recorded) > 2 {
			t.Errorf("the cloud has the volumes %v, and the record %v, want the one of the server that lives and that of the last failed one", left, recorded)
		}
	})
	t.Run("do not prevent the next server while Cinder cannot delete them, and stay in the record (M.2)", func(t *testing.T) {
		b := newBench(t, leaves)
		m := newMachine(t, "a", withVolume())
		i := b.failBuild(m)
		b.sim.Inject(sim.Fault{Service: "volume", Status: http.StatusInternalServerError})
		s, err := b.make(i)
		if err != nil {
			t.Fatal(err)
		}
		before := recordIn(m).VolumeIDs
		m.Status.ProviderStatus = merged(m, s)
		if got := recordIn(m).VolumeIDs; fmt.Sprint(got) != fmt.Sprint(before) || len(got) != 1 {
			t.Errorf("got %v, want %v", got, before)
		}
	})
	t.Run("prevent the next server when there are 16 of them, because the record keeps every volume that lives (M.2)", func(t *testing.T) {
		b := newBench(t)
		m := newMachine(t, "a", withVolume())
		_, s := b.active(m)
		var ids []string
		for range 16 {
			ids = append(ids, b.newVolume())
		}
		b.recordsVolumes(m, s, append(ids, recordOf(s).VolumeIDs...)...)
		if got := len(recordIn(m).VolumeIDs); got != 17 {
			t.Fatalf("the record has %d volumes, want all 17", got)
		}
		b.sim.DeleteServer(s.ID)
		m.Spec.ProviderID = nil
		b.restart()
		i := b.synced(m)
		b.eventually("the server is gone", func() bool { return b.observe(i).Server == nil })
		_, err := b.make(i)
		if e := fault.Of(err); e == nil || !strings.Contains(e.Message, "volumes of former servers of this Machine still exist") {
			t.Errorf("got %v", err)
		}
		if got := b.calls("POST /servers"); got != 1 {
			t.Errorf("%d servers were requested, want only the first", got)
		}
	})
}
