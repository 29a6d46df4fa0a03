package openstack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// interest is a Machine that asked for its cloud side.
type interest struct {
	key        types.NamespacedName
	connection *connection
	// serverID is the server that the Machine names; empty: none. That is no evidence that the server is the Machine's.
	serverID string
	// server is the name that the Machine's server has.
	server string
	// leaving: the Machine is being deleted.
	leaving bool
	// joined: the Machine has a Node.
	joined bool
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
	if old := r.machines[uid].serverID; old != i.serverID && r.byServer[old] == uid {
		delete(r.byServer, old)
	}
	r.machines[uid] = i
	if i.serverID != "" {
		r.byServer[i.serverID] = uid
	}
}

// forget drops a Machine whose resources are all released.
func (r *registry) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(uid)
}

func (r *registry) drop(uid types.UID) {
	if id := r.machines[uid].serverID; r.byServer[id] == uid {
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

// named gives the UID of the Machine that names a server; empty: none.
func (r *registry) named(serverID string) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byServer[serverID]
}

// called returns the UID of a Machine whose server has that name; empty: none.
func (r *registry) called(server string) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, i := range r.machines {
		if i.server == server {
			return uid
		}
	}
	return ""
}

// leaving reports whether the Machine with that UID is being deleted.
func (r *registry) leaving(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machines[uid].leaving
}

// each calls f for every Machine, with the lock held.
func (r *registry) each(f func(interest)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.machines {
		f(i)
	}
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
		if !there[uid] && now.Sub(i.asked) > fullPeriod/2 {
			r.drop(uid)
		}
	}
	return nil
}
