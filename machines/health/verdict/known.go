package verdict

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// missingFor is how long a Machine that is missing is remembered: one that somebody has deleted by taking its finalizers off, between two
// snapshots, must not stop repair for longer.
const missingFor = time.Hour

// Known remembers the Machines that snapshots have shown, from the end of their first start until they leave. The zero value knows none.
type Known struct {
	snapshots int
	machines  map[types.UID]*lastSeen
}

// lastSeen is the number of the last snapshot that has shown a Machine, and when it was first missing after that; zero: it is not.
type lastSeen struct {
	snapshot int
	missed   time.Time
}

// Missing takes in the Machines of a snapshot. It returns how many of those that are known it lacks. What it lacks for more than an
// hour is not known any more.
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

// see takes in one Machine that a snapshot shows.
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
