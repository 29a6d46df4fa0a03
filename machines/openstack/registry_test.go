package openstack

import (
	"testing"

	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

func TestMachinesThatNoLongerExistAreRemovedFromDroversMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	here, gone := newMachine(t, "here", seedFields()), newMachine(t, "gone", seedFields())
	b.withReader(newReader(t, here))
	b.synced(here)
	b.synced(gone)
	b.pass(state.FullPeriod)
	b.eventually("the force-deleted Machine is forgotten", func() bool {
		_, known := b.cloud.machines.get(gone.UID)
		return !known
	})
	if _, known := b.cloud.machines.get(here.UID); !known {
		t.Error("the existing Machine was forgotten")
	}
}
