package scope

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/memory"
)

// RetryCache is the interval after which a reconcile is repeated if its cache was older than this process's last write and no
// watch event arrives before.
const RetryCache = 5 * time.Second

// Options configure a [Store].
type Options struct {
	// Client writes Machines as FieldOwner. Recorder records their Events.
	Client     client.Writer
	FieldOwner client.FieldOwner
	Recorder   events.EventRecorder
	Clock      clock.PassiveClock
	// Provider parses the provider's own fields of a Machine.
	Provider cloud.Provider
	// Controller is the controller name that a Machine's label must have.
	Controller string
	Start      nodes.StartRules
	// Gone is called with the UID of each Machine that the Store forgets, because the Machine no longer exists or another
	// Machine has its name. Default: nothing is called.
	Gone func(types.UID)
	// NotReady counts the Nodes that stopped being Ready. Default: that of [NewNotReady], unregistered.
	NotReady prometheus.Counter
}

// NewNotReady returns the counter for [Options.NotReady].
func NewNotReady() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "drover_machine_node_not_ready_total",
		Help: "Changes of Nodes of Machines from Ready to not Ready. The Events NodeNotReady of a Machine count those of its Node.",
	})
}

// Store opens a [Scope] for each reconcile, and holds the [Memory] of each Machine. A new process starts without
// that memory, which costs at most one more write.
type Store struct {
	Options
	memory memory.Of[Memory]
}

// NewStore returns an empty Store.
func NewStore(o Options) *Store {
	if o.Gone == nil {
		o.Gone = func(types.UID) {}
	}
	if o.NotReady == nil {
		o.NotReady = NewNotReady()
	}
	return &Store{Options: o}
}

// Open returns the scope of a reconcile. cached is the object from the cache and is not changed. Open returns nil when the
// cache is older than this process's last write of the Machine: a write based on that cache would be refused, or would repeat
// the last write.
func (s *Store) Open(cached *v1alpha1.Machine) *Scope {
	remembered, before := s.memory.Of(cached)
	s.gone(before)
	if remembered.cacheOld(cached, s.Clock.Now()) {
		return nil
	}
	return &Scope{Machine: cached.DeepCopy(), Base: cached, Memory: remembered, store: s}
}

// Forget drops the memory of a Machine that is gone.
func (s *Store) Forget(machine types.NamespacedName) { s.gone(s.memory.Forget(machine)) }

// gone calls Gone, unless machine is empty.
func (s *Store) gone(machine types.UID) {
	if machine != "" {
		s.Gone(machine)
	}
}
