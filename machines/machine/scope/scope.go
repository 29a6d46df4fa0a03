// Package scope holds the state of one reconcile of one Machine that all its steps share ([Scope]): the Machine as it is worked
// on and as it is stored, the facts, and the result. Only this package writes Machines ([Scope.Finish], [Scope.WriteAhead]),
// and it remembers what this process wrote ([Store]). It makes no decisions about servers, Nodes or the next step.
package scope

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/status"
)

// PollCloud is how soon to check the outcome of a request to the cloud, if the cloud reports no change before.
const PollCloud = 15 * time.Second

// A forced deletion waits for its pods and for the first lists of servers no longer than ForcedDrain, and for anything else no
// longer than ForcedDeletion. Both begin when this process first sees that the deletion is forced. A call to the cloud may take
// a minute, and the Machine must be gone within five.
const (
	ForcedDrain    = time.Minute
	ForcedDeletion = 3 * time.Minute
)

// Scope is one reconcile of one Machine.
type Scope struct {
	// Machine is worked on. Base is the Machine as it is stored, and must not be changed.
	Machine, Base *v1alpha1.Machine
	// The facts. An observer sets Observed and Policy, steps change Progress.
	Observed lifecycle.Observed
	Policy   lifecycle.Policy
	Progress lifecycle.Progress
	status.Result
	// Instance accesses the Machine's resources in the cloud; nil when its spec or credentials cannot be read.
	Instance cloud.Instance
	Group    Group
	// UserData is the server's user data, once it is made.
	UserData []byte
	// RequeueAfter is when to reconcile again; 0: when something changes.
	RequeueAfter time.Duration
	// WaitsForTurn reports whether the reconcile ended at a call that waits behind other calls of drover. That is not a
	// failure.
	WaitsForTurn bool
	// Urgent reports whether a successor must see the progress of this reconcile, so that the Machine is written at once.
	Urgent bool
	// LeftBehind names the resources that the cloud may still have when the Machine is removed without the cloud's
	// confirmation. LeftReason is the reason of its Event.
	LeftBehind, LeftReason string
	// Gone reports whether the Machine no longer exists, so it cannot be written.
	Gone bool

	store *Store
	// warnings are recorded as Events with the next write of the Machine.
	warnings []warning
}

// Group identifies the Machines that share a back-off. It is zero before it was looked up.
type Group struct {
	// Holder is the Machine's deployment, else its set, else the Machine itself: a *v1alpha1.MachineDeployment, a
	// *v1alpha1.MachineSet or the *v1alpha1.Machine.
	Holder client.Object
	// Set is the UID of the Machine's set; empty when it has none.
	Set types.UID
	// Revision is the revision of the Machine's template; 0 when it is not known.
	Revision int64
}

// warning is a Warning Event.
type warning struct{ reason, message string }

// Now returns the time.
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

// Warn records a Warning Event for the Machine. Steps call it when something changes, not in each reconcile.
func (s *Scope) Warn(reason, message string) {
	s.store.Recorder.Eventf(s.Machine, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", message)
}

// WarnOnWrite records a Warning Event after the Machine has been written in this reconcile, and none when that write fails or
// nothing differs. It is for Events whose text is also in the written status, so that a repeated write does not repeat the
// Event.
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

// WroteNode replaces the Node by its state after a write, for the rest of the reconcile.
func (s *Scope) WroteNode(node *corev1.Node) {
	s.Observed.Node = node
	s.store.memory.wroteNode(s.Machine, node, s.Now())
}

// CacheOld reports whether the cache shows the Machine's Node as it was before this process's last write.
func (s *Scope) CacheOld(node *corev1.Node) bool {
	return s.store.memory.cacheOld(s.Machine, node, s.Now())
}

// DeletionBegun reports whether this process was allowed to begin the Machine's deletion.
func (s *Scope) DeletionBegun() bool { return s.store.memory.hasBegun(s.Machine) }

// StartUnsent reports whether this process recorded the start of the server and has not sent it to the cloud yet.
func (s *Scope) StartUnsent() bool {
	record := s.Machine.Status.ServerStart
	return record != nil && s.store.memory.startUnsent(s.Machine, record.Time.Time)
}

// SetStartUnsent remembers whether the recorded start must still be sent to the cloud.
func (s *Scope) SetStartUnsent(unsent bool) {
	recorded := time.Time{}
	if unsent {
		recorded = s.Machine.Status.ServerStart.Time.Time
	}
	s.store.memory.setUnsent(s.Machine, recorded)
}

// AllowDeletion remembers whether the Machine's deletion may go on.
func (s *Scope) AllowDeletion(allowed bool) { s.store.memory.allowed(s.Machine, allowed) }

// Forced reports whether the Machine is being deleted by force.
func (s *Scope) Forced() bool {
	return s.Machine.DeletionTimestamp != nil && s.Machine.Annotations[v1alpha1.AnnotationForceDelete] == "true"
}

// ForcedFor returns how long this process has known that the Machine's deletion is forced; 0 when it is not.
func (s *Scope) ForcedFor() time.Duration {
	if !s.Forced() {
		s.store.memory.notForced(s.Machine)
		return 0
	}
	now := s.Now()
	return now.Sub(s.store.memory.forcedSince(s.Machine, now))
}

// RequeueForced requeues a Machine whose deletion is forced for the end of the next of its time limits.
func (s *Scope) RequeueForced() {
	if !s.Forced() {
		return
	}
	forced := s.ForcedFor()
	s.RequeueWithin(ForcedDrain - forced)
	s.RequeueWithin(max(ForcedDeletion-forced, time.Second))
}
