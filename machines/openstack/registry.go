package openstack

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// interest records a Machine for which Cloud.Instance was called.
type interest struct {
	key types.NamespacedName
	// group is the node group whose share of the request rate the Machine uses.
	group      string
	connection *connection
	// machine holds the fields of the Machine that the inventory needs.
	machine state.Machine
	// asked is when Cloud.Instance was last called for the Machine.
	asked time.Time
}

// registry records the Machines for which Cloud.Instance was called, so that changes of a server are reported for its Machine.
type registry struct {
	// dropped is called after a Machine was removed from the registry, with its UID.
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

// forget removes a Machine whose resources are all released.
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

// Get returns the Machine with that UID, and reports whether it is registered.
func (r *registry) Get(uid types.UID) (state.Machine, bool) {
	i, ok := r.get(uid)
	return i.machine, ok
}

// All returns all registered Machines, in no order. The registry is locked while the caller iterates.
func (r *registry) All() iter.Seq[state.Machine] {
	return func(yield func(state.Machine) bool) {
		for i := range r.interests {
			if !yield(i.machine) {
				return
			}
		}
	}
}

// Naming returns the UID of the Machine whose spec.providerID names a server; empty when there is none.
func (r *registry) Naming(serverID string) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byServer[serverID]
}

// interests yields every Machine, with mu held.
func (r *registry) interests(yield func(interest) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.machines {
		if !yield(i) {
			return
		}
	}
}

// uses are the connections, groups and projects that registered Machines use.
type uses struct {
	connections map[*connection]bool
	groups      map[string]bool
	// recorded are the projects and regions in the status of any registered Machine.
	recorded map[state.Site]bool
}

// uses returns what the registered Machines use.
func (r *registry) uses() uses {
	u := uses{connections: map[*connection]bool{}, groups: map[string]bool{}, recorded: map[state.Site]bool{}}
	for i := range r.interests {
		u.connections[i.connection], u.groups[i.group], u.recorded[i.machine.Recorded] = true, true, true
	}
	return u
}

// prune removes the Machines that do not exist any more, such as those that were force-deleted. Machines that were reconciled
// recently stay, because the informer cache of reader may lag.
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
		if !there[uid] && now.Sub(i.asked) > state.FullPeriod/2 {
			r.drop(uid)
		}
	}
	return nil
}
