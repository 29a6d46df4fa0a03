package openstack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// interest records a Machine for which Cloud.Instance was called.
type interest struct {
	key types.NamespacedName
	// group is the node group whose share of the requests it takes.
	group      string
	connection *connection
	// machine is what the inventory needs to know of it.
	machine inventory.Machine
	// asked is when it asked last.
	asked time.Time
}

// registry remembers the Machines that asked, so that changes find their Machine.
type registry struct {
	// dropped is called with each Machine that is forgotten.
	dropped  func(types.UID)
	mu       sync.Mutex
	machines map[types.UID]interest
	byServer map[string]types.UID
}

func newRegistry() *registry {
	return &registry{dropped: func(types.UID) {}, machines: map[types.UID]interest{}, byServer: map[string]types.UID{}}
}

func (r *registry) put(uid types.UID, i interest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.machines[uid].machine.ServerID; old != i.machine.ServerID && r.byServer[old] == uid {
		delete(r.byServer, old)
	}
	r.machines[uid] = i
	if i.machine.ServerID != "" {
		r.byServer[i.machine.ServerID] = uid
	}
}

// forget drops a Machine whose resources are all released.
func (r *registry) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(uid)
}

func (r *registry) drop(uid types.UID) {
	if id := r.machines[uid].machine.ServerID; r.byServer[id] == uid {
		delete(r.byServer, id)
	}
	delete(r.machines, uid)
	r.dropped(uid)
}

func (r *registry) get(uid types.UID) (interest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.machines[uid]
	return i, ok
}

// Get returns the Machine with that UID, and reports whether there is one.
func (r *registry) Get(uid types.UID) (inventory.Machine, bool) {
	i, ok := r.get(uid)
	return i.machine, ok
}

// Naming returns the UID of the Machine whose spec.providerID names a server; empty: none does.
func (r *registry) Naming(serverID string) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byServer[serverID]
}

// each calls f for every Machine, with the lock held.
func (r *registry) each(f func(interest)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.machines {
		f(i)
	}
}

// uses are what the Machines that asked use.
type uses struct {
	connections map[*connection]bool
	groups      map[string]bool
	// recorded are the projects that their resources are recorded in.
	recorded map[inventory.Site]bool
}

// uses returns what the Machines that asked use.
func (r *registry) uses() uses {
	u := uses{connections: map[*connection]bool{}, groups: map[string]bool{}, recorded: map[inventory.Site]bool{}}
	r.each(func(i interest) {
		u.connections[i.connection], u.groups[i.group], u.recorded[i.machine.Recorded] = true, true, true
	})
	return u
}

// prune drops the Machines that are no more, as those that were let go by force. Machines that asked not long ago stay:
// the reader may lag.
func (r *registry) prune(ctx context.Context, reader ctrlclient.Reader, now time.Time) error {
	all := &v1alpha1.MachineList{}
	if err := reader.List(ctx, all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	there := make(map[types.UID]bool, len(all.Items))
	for i := range all.Items {
		there[all.Items[i].UID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, i := range r.machines {
		if !there[uid] && now.Sub(i.asked) > inventory.FullPeriod/2 {
			r.drop(uid)
		}
	}
	return nil
}
