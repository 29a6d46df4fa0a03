package verdict

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// missingFor is how long a missing Machine is remembered. A Machine whose finalizers were removed between two snapshots must
// not block repair for longer than that.
const missingFor = time.Hour

// Known remembers the Machines in earlier snapshots, from the end of their first start until they are deleted. The zero value
// is empty.
type Known struct {
	snapshots int
	machines  map[types.UID]*lastSeen
}

// lastSeen is what Known remembers of a Machine: the number of the last snapshot that contained the Machine, and when it was
// first missing after that (zero when it is not missing).
type lastSeen struct {
	snapshot int
	missed   time.Time
}

// Missing records the Machines of a snapshot, and returns how many known Machines the snapshot lacks. Machines that have been
// missing for more than an hour are forgotten.
func (k *Known) Missing(now time.Time, machines []Machine) (missing int) {
	k.snapshots++
	if k.machines == nil {
		k.machines = make(map[types.UID]*lastSeen, len(machines))
	}
	for i := range machines {
		k.see(&machines[i])
	}
	for uid, seen := range k.machines {
		switch {
		case seen.snapshot == k.snapshots:
		case seen.missed.IsZero():
			seen.missed = now
			missing++
		case now.Sub(seen.missed) > missingFor:
			delete(k.machines, uid)
		default:
			missing++
		}
	}
	return missing
}

// see records one Machine of a snapshot.
func (k *Known) see(m *Machine) {
	seen := k.machines[m.UID]
	switch {
	case m.DeletionTimestamp != nil || !hasStarted(m.Machine):
		delete(k.machines, m.UID)
	case seen == nil:
		k.machines[m.UID] = &lastSeen{snapshot: k.snapshots}
	default:
		seen.snapshot, seen.missed = k.snapshots, time.Time{}
	}
}
