package scope

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/status"
)

// longestLag is how long drover rejects a cache that is older than its own last write. After that it uses the cache
// nevertheless: when a backup of etcd was restored, resource versions start again at a lower number, and the cache only seems
// older.
const longestLag = time.Minute

// memory holds, for each Machine, the last writes of this process, and the time since which a change waits to be written.
type memory struct {
	// gone is called with the UID of each Machine that is removed from the memory.
	gone     func(types.UID)
	mu       sync.Mutex
	machines map[types.NamespacedName]*written
}

// written is the state of one Machine in the memory.
type written struct {
	uid           types.UID
	machine, node ownWrite
	// unwritten is the time since which a change that is not urgent waits to be written; zero when no change waits.
	unwritten time.Time
	// forced is when this process first saw that the deletion is forced; zero when it is not.
	forced time.Time
	// begun reports whether drover's CRDs allowed the Machine's deletion when this process last checked them.
	begun bool
	// seen is the last state of the Machine that this process read or wrote.
	seen seen
	// unsent is the time of a start of the server that was recorded in the Machine's status, and whose request this process
	// has not sent to the cloud yet; zero when there is no such start.
	unsent time.Time
	// ended is when this process removed the last finalizer; zero when it did not. It is needed because the answer to that
	// write contains no new resource version.
	ended time.Time
	// additions are the recent additions to the Node with the UID addedTo, by what was added.
	additions map[string]additions
	addedTo   types.UID
}

// ownWrite is the version of an object after a write, and the time of the write.
type ownWrite struct {
	uid     types.UID
	version string
	at      time.Time
}

func newMemory(gone func(types.UID)) *memory {
	return &memory{gone: gone, machines: map[types.NamespacedName]*written{}}
}

// stateOf returns the state of a Machine. The caller must hold mu. A new Machine that has the name of an old one starts with
// an empty state.
func (mem *memory) stateOf(m *v1alpha1.Machine) *written {
	key := client.ObjectKeyFromObject(m)
	e := mem.machines[key]
	if e == nil || e.uid != m.UID {
		mem.drop(key)
		e = &written{uid: m.UID}
		mem.machines[key] = e
	}
	return e
}

// newer reports whether the write o is newer than the object in the cache. It compares resource versions as numbers:
// Kubernetes guarantees since 1.35 that they can be compared, and older API servers use the revisions of etcd, which can be
// compared, too.
func (o ownWrite) newer(cached client.Object, now time.Time) bool {
	if o.uid != cached.GetUID() || now.Sub(o.at) > longestLag {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.version, cached.GetResourceVersion())
	return err == nil && order > 0
}

// wroteMachine records a write of a Machine. After the write, no change of the Machine waits to be written. m must not be
// changed any more.
func (mem *memory) wroteMachine(m *v1alpha1.Machine, now time.Time) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	e := mem.stateOf(m)
	e.machine, e.unwritten, e.seen = ownWrite{m.UID, m.ResourceVersion, now}, time.Time{}, seenIn(m)
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		e.ended = now
	}
}

// wroteNode records a write of a Machine's Node.
func (mem *memory) wroteNode(m *v1alpha1.Machine, node *corev1.Node, now time.Time) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).node = ownWrite{node.UID, node.ResourceVersion, now}
}

// cacheOld reports whether the cache shows the Machine or its Node in a state from before this process's last write, or shows
// a Machine that is gone since that write. node may be nil.
func (mem *memory) cacheOld(m *v1alpha1.Machine, node *corev1.Node, now time.Time) bool {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	e := mem.stateOf(m)
	ended := !e.ended.IsZero() && now.Sub(e.ended) <= longestLag
	return ended || e.machine.newer(m, now) || node != nil && e.node.newer(node, now)
}

// nothingWaits records that no change of the Machine waits to be written.
func (mem *memory) nothingWaits(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).unwritten = time.Time{}
}

// mayWait returns how long a change that is not urgent may still wait; 0 means that it must be written now.
func (mem *memory) mayWait(m *v1alpha1.Machine, now time.Time) time.Duration {
	return max(0, -mem.late(m, now))
}

// late returns for how long a change should have been written already; negative while it may still wait.
func (mem *memory) late(m *v1alpha1.Machine, now time.Time) time.Duration {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	e := mem.stateOf(m)
	if e.unwritten.IsZero() {
		e.unwritten = now
	}
	return now.Sub(e.unwritten) - status.MaxDelay(m)
}

// hasBegun reports whether this process was allowed to begin the Machine's deletion.
func (mem *memory) hasBegun(m *v1alpha1.Machine) bool {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	return mem.stateOf(m).begun
}

// allowed records whether the Machine's deletion may begin or continue.
func (mem *memory) allowed(m *v1alpha1.Machine, may bool) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).begun = may
}

// forcedSince returns when this process first saw that the Machine's deletion is forced.
func (mem *memory) forcedSince(m *v1alpha1.Machine, now time.Time) time.Time {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	e := mem.stateOf(m)
	if e.forced.IsZero() {
		e.forced = now
	}
	return e.forced
}

// notForced records that the Machine's deletion is not forced.
func (mem *memory) notForced(m *v1alpha1.Machine) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).forced = time.Time{}
}

// startUnsent reports whether this process recorded the start of the Machine's server at the given time, and has not sent the
// request to the cloud yet.
func (mem *memory) startUnsent(m *v1alpha1.Machine, recorded time.Time) bool {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	unsent := mem.stateOf(m).unsent
	return !unsent.IsZero() && unsent.Equal(recorded)
}

// setUnsent remembers that a start of the Machine's server has been recorded in its status, but that the request to start the
// server has not been sent to the cloud yet. recorded is the time in the status; zero when no request must be sent any more.
func (mem *memory) setUnsent(m *v1alpha1.Machine, recorded time.Time) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.stateOf(m).unsent = recorded
}

// forget drops the state of a Machine that is gone.
func (mem *memory) forget(machine types.NamespacedName) {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.drop(machine)
}

// drop drops the state of a Machine. The caller must hold mu.
func (mem *memory) drop(machine types.NamespacedName) {
	if e := mem.machines[machine]; e != nil {
		delete(mem.machines, machine)
		mem.gone(e.uid)
	}
}
