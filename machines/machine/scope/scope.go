// Package scope holds the state of one reconcile of one Machine that all its steps share ([Scope]): the working copy of the
// Machine, the stored Machine, the facts, and the result. Only this package writes Machines ([Scope.Finish],
// [Scope.WriteAhead]), and it remembers what this process wrote ([Store]). It makes no decisions about servers, Nodes or the
// next step.
package scope

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/status"
	"github.com/drover-project/drover/machines/memory"
)

// PollCloud is the interval after which the outcome of a request to the cloud is checked, if the cloud reports no change
// before.
const PollCloud = 15 * time.Second

// A forced deletion waits no longer than ForcedDrain for its pods and for the first lists of servers, and no longer than
// ForcedDeletion for anything else. Both times begin when this process first sees that the deletion is forced. A call to the
// cloud may take a minute, and the Machine must be gone within five minutes.
const (
	ForcedDrain    = time.Minute
	ForcedDeletion = 3 * time.Minute
)

// FieldOwner is the field manager of the Machine controller.
const FieldOwner = client.FieldOwner("drover-machine")

// Scope is one reconcile of one Machine.
type Scope struct {
	// Machine is the working copy, which steps change. Base is the Machine as it is stored, and must not be changed.
	Machine, Base *v1alpha1.Machine
	// The facts. An observer sets Observed and Policy; steps change Progress.
	Observed lifecycle.Observed
	Policy   lifecycle.Policy
	Progress lifecycle.Progress
	status.Result
	// Instance accesses the Machine's resources in the cloud; nil when the Machine's spec or credentials cannot be read.
	Instance cloud.Instance
	Group    Group
	// UserData is the server's user data; empty until it has been generated.
	UserData []byte
	// RequeueAfter is the time after which the Machine is reconciled again. 0 means that it is reconciled only when something
	// changes.
	RequeueAfter time.Duration
	// WaitsForTurn reports whether the reconcile ended with a call that waits behind other calls of drover. Such a wait is
	// not a failure.
	WaitsForTurn bool
	// Urgent reports whether a new leader must be able to read the progress of this reconcile. If so, the Machine is written
	// immediately.
	Urgent bool
	// LeftBehind names the resources that the cloud may still have when the Machine is removed without the cloud's
	// confirmation. LeftReason is the reason of the Event about these resources.
	LeftBehind, LeftReason string
	// LeftOnNode names the pods and volumes that are on the Node although its drain is done, with the reasons.
	LeftOnNode []string
	// Memory is what this process remembers of the Machine.
	Memory *Memory
	// Gone reports whether the Machine no longer exists. In that case it cannot be written.
	Gone bool

	store *Store
	// warnings are recorded as Events with the next write of the Machine.
	warnings []warning
}

// Group identifies the Machines that share a back-off. It is zero until it has been looked up.
type Group struct {
	// Holder is the Machine's deployment, otherwise its set, otherwise the Machine itself: a *v1alpha1.MachineDeployment, a
	// *v1alpha1.MachineSet or the *v1alpha1.Machine.
	Holder client.Object
	// Set is the UID of the Machine's set; empty when the Machine belongs to no set.
	Set types.UID
	// Revision is the revision of the Machine's template; 0 when it is not known.
	Revision int64
}

// warning is a Warning Event.
type warning struct{ reason, message string }

// Now returns the present time by the clock of the store.
func (s *Scope) Now() time.Time { return s.store.Clock.Now() }

// Facts returns the facts in the form that [lifecycle.Next] takes.
func (s *Scope) Facts() *lifecycle.Facts {
	return &lifecycle.Facts{Observed: &s.Observed, Policy: &s.Policy, Progress: &s.Progress}
}

// ReadMachine updates the observed facts after a step has changed the Machine.
func (s *Scope) ReadMachine() {
	s.Observed.ReadMachine(s.Machine, s.store.Controller, s.store.Provider)
}

// RequeueWithin requeues the Machine after the given time at the latest. A time of zero or less changes nothing.
func (s *Scope) RequeueWithin(after time.Duration) {
	if after > 0 && (s.RequeueAfter == 0 || after < s.RequeueAfter) {
		s.RequeueAfter = after
	}
}

// Warn records a Warning Event for the Machine, or one for each part of a text that is too long for one. Steps call it only when
// something changes, not in each reconcile. The recorder of Events treats two Events with the same reason and action as repetitions
// of the first, so each part has an action of its own.
func (s *Scope) Warn(reason string, parts ...string) {
	for i, part := range parts {
		action := "Reconcile"
		if i > 0 {
			action = fmt.Sprintf("Reconcile%d", i+1)
		}
		s.store.Recorder.Eventf(s.Machine, nil, corev1.EventTypeWarning, reason, action, "%s", part)
	}
}

// WarnOnWrite records a Warning Event after this reconcile has written the Machine. It records none when that write fails, or
// when there is nothing to write. It is for Events whose text is also in the written status, so that a repeated write does
// not repeat the Event.
func (s *Scope) WarnOnWrite(reason, message string) {
	s.warnings = append(s.warnings, warning{reason, message})
}

// SetCondition sets a condition of the Machine.
func (s *Scope) SetCondition(name string, v status.Verdict) {
	status.SetCondition(s.Machine, name, v, metav1.NewTime(s.Now()))
}

// ComputeStatus computes the whole status from the facts and the result.
func (s *Scope) ComputeStatus() {
	status.Compute(&status.Input{
		Machine: s.Machine, Base: s.Base, Facts: s.Facts(), Result: s.Result, Start: s.store.Start, Now: metav1.NewTime(s.Now()),
	})
}

// WroteNode records a write of the Node, and uses the written Node for the rest of the reconcile.
func (s *Scope) WroteNode(node *corev1.Node) {
	s.Observed.Node = node
	s.Memory.node = ownWrite{node.UID, node.ResourceVersion, s.Now()}
}

// CacheOld reports whether the cache shows the Machine's Node in a state from before this process's last write.
func (s *Scope) CacheOld(node *corev1.Node) bool { return s.Memory.node.newer(node, s.Now()) }

// StartUnsent reports whether this process recorded the start of the server but has not sent the request to the cloud yet.
func (s *Scope) StartUnsent() bool {
	record := s.Machine.Status.ServerStart
	return record != nil && !s.Memory.unsent.IsZero() && s.Memory.unsent.Equal(record.Time.Time)
}

// SetStartUnsent remembers whether the request for the recorded start must still be sent to the cloud.
func (s *Scope) SetStartUnsent(unsent bool) {
	s.Memory.unsent = time.Time{}
	if unsent {
		s.Memory.unsent = s.Machine.Status.ServerStart.Time.Time
	}
}

// Forced reports whether the Machine is being deleted by force.
func (s *Scope) Forced() bool {
	return s.Machine.DeletionTimestamp != nil && s.Machine.Annotations[v1alpha1.AnnotationForceDelete] == "true"
}

// ForcedFor returns how long this process has known that the Machine's deletion is forced; 0 when the deletion is not forced.
func (s *Scope) ForcedFor() time.Duration {
	now := s.Now()
	switch {
	case !s.Forced():
		s.Memory.forced = time.Time{}
		return 0
	case s.Memory.forced.IsZero():
		s.Memory.forced = now
	}
	return now.Sub(s.Memory.forced)
}

// RequeueForced requeues a Machine whose deletion is forced, for the time at which the next of its time limits ends.
func (s *Scope) RequeueForced() {
	if !s.Forced() {
		return
	}
	forced := s.ForcedFor()
	s.RequeueWithin(ForcedDrain - forced)
	s.RequeueWithin(max(ForcedDeletion-forced, time.Second))
}

// RetryCache is the interval after which a reconcile is repeated if its cache was older than this process's last write and no
// watch event arrives before.
const RetryCache = 5 * time.Second

// Options configure a [Store].
type Options struct {
	// Client writes Machines. Recorder records their Events.
	Client   client.Writer
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Provider parses the provider's own fields of a Machine.
	Provider cloud.Provider
	// Controller is the controller name that a Machine's label must have.
	Controller string
	Start      nodes.StartRules
	// Gone is called with the UID of each Machine that the Store forgets, because the Machine no longer exists or another
	// Machine has its name.
	Gone func(types.UID)
}

// Store opens a [Scope] for each reconcile, and holds the [Memory] of each Machine. A new process starts without
// that memory, which costs at most one more write.
type Store struct {
	Options
	// NotReady counts the Nodes that stopped being Ready. The Store does not register it.
	NotReady prometheus.Counter
	memory   memory.Of[Memory]
}

// NewStore returns an empty Store.
func NewStore(o Options) *Store {
	return &Store{Options: o, NotReady: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "drover_machine_node_not_ready_total",
		Help: "Changes of Nodes of Machines from Ready to not Ready. The Events NodeNotReady of a Machine count those of its Node.",
	})}
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
