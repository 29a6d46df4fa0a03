package scope

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/nodes"
)

// RetryCache is when a reconcile is repeated whose cache was older than this process's own last write, if the watch delivers
// nothing before.
const RetryCache = 5 * time.Second

// Options make a [Store].
type Options struct {
	// Client writes Machines, as FieldOwner. Recorder records their Events.
	Client     client.Writer
	FieldOwner client.FieldOwner
	Recorder   events.EventRecorder
	Clock      clock.PassiveClock
	// Provider reads what of the Machine is the provider's own.
	Provider cloud.Provider
	// Controller is the controller name that a Machine's label must have.
	Controller string
	Start      nodes.StartRules
	// Gone is called with the UID of each Machine that is forgotten: it is gone, maybe without the steps of a deletion, or
	// another one has its name. It must not call the Store. Default: nobody is told.
	Gone func(types.UID)
}

// Store opens a [Scope] for each reconcile, and remembers what this process wrote of each Machine. What it remembers is lost
// with the process, which costs at most a write.
type Store struct {
	Options
	memory *memory
}

// NewStore returns a Store that remembers nothing yet.
func NewStore(o Options) *Store {
	if o.Gone == nil {
		o.Gone = func(types.UID) {}
	}
	return &Store{Options: o, memory: newMemory(o.Gone)}
}

// Open returns the scope of a reconcile. cached is the cache's own object, which is not changed. It returns nil when the cache
// is older than this process's own last write of the Machine: a write that follows from it would be refused, or repeat what is
// done already.
func (s *Store) Open(cached *v1alpha1.Machine) *Scope {
	if s.memory.cacheOld(cached, nil, s.Clock.Now()) {
		return nil
	}
	return &Scope{Machine: cached.DeepCopy(), Base: cached, store: s}
}

// Forget drops what is remembered of a Machine that is gone.
func (s *Store) Forget(machine types.NamespacedName) { s.memory.forget(machine) }
