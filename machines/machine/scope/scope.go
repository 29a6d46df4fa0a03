// Package scope is one reconcile of one Machine, as all its steps share it: the Machine as it is worked on and as it is stored,
// the facts, and the result ([Scope]). It is also the only place that writes Machines ([Scope.Finish], [Scope.WriteAhead]),
// and remembers what this process wrote ([Store]). It decides nothing about servers, Nodes or the next step.
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

// PollCloud is how soon to look again at what the cloud was asked for, if it reports no change before.
const PollCloud = 15 * time.Second

// A forced deletion waits for its pods, and for the first lists of servers, no longer than ForcedDrain, and for anything no longer than ForcedDeletion, each from when this
// process first saw that it is forced. A call to the cloud may take a minute, and the Machine is gone within five.
const (
	ForcedDrain    = time.Minute
	ForcedDeletion = 3 * time.Minute
)

// Scope is one reconcile of one Machine.
type Scope struct {
	// Machine is worked on. Base is the Machine as it is stored, and must not be changed.
	Machine, Base *v1alpha1.Machine
	// The facts. An observer fills Observed and Policy, steps change Progress.
	Observed lifecycle.Observed
	Policy   lifecycle.Policy
	Progress lifecycle.Progress
	status.Result
	// Instance is the Machine's side of the cloud; nil when its spec or credentials cannot be read.
	Instance cloud.Instance
	Group    Group
	// UserData is what the server is created with, once it is made.
	UserData []byte
	// RequeueAfter is when to look again; 0: when something changes.
	RequeueAfter time.Duration
	// WaitsForTurn: the reconcile ended at a call that waits for other calls of drover's own. That is no failure.
	WaitsForTurn bool
	// Urgent: a successor must know that the reconcile came this far, so that it is written at once.
	Urgent bool
	// LeftBehind is what the cloud may still hold of a Machine that is let go, and LeftReason is why.
	LeftBehind, LeftReason string
	// Gone: the Machine was deleted or let go, so there is nothing left to write to.
	Gone bool

	store *Store
	// warnings are recorded with the next write of the Machine.
	warnings []warning
}

// Group is the Machines that share a back-off. It is zero while it was not looked up.
type Group struct {
	// Holder is the Machine's deployment, else its set, else the Machine itself: a *v1alpha1.MachineDeployment, a
	// *v1alpha1.MachineSet or the *v1alpha1.Machine.
	Holder client.Object
	// Set is the UID of the Machine's set; empty when it has none.
	Set types.UID
	// Revision is that of the Machine's template; 0 when it is not known.
	Revision int64
}

// warning is a Warning Event.
type warning struct{ reason, message string }

// Now returns the time.
func (s *Scope) Now() time.Time { return s.store.Clock.Now() }

// Facts returns the facts, as [lifecycle.Next] takes them.
func (s *Scope) Facts() *lifecycle.Facts {
	return &lifecycle.Facts{Observed: &s.Observed, Policy: &s.Policy, Progress: &s.Progress}
}

// ReadMachine brings the observed facts up to date with the Machine, after a step has changed it.
func (s *Scope) ReadMachine() {
	s.Observed.ReadMachine(s.Machine, s.store.Controller, s.store.Provider)
}

// RequeueWithin has the Machine looked at again after that time at the latest. A time of zero or less changes nothing.
func (s *Scope) RequeueWithin(after time.Duration) {
	if after > 0 && (s.RequeueAfter == 0 || after < s.RequeueAfter) {
		s.RequeueAfter = after
	}
}

// Warn records a Warning Event of the Machine. It is called when something changes, not at each reconcile.
func (s *Scope) Warn(reason, message string) {
	s.store.Recorder.Eventf(s.Machine, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", message)
}

// WarnOnWrite records a Warning Event once the Machine has been written in this reconcile; never when that fails or nothing
// differs. It is for what the written status repeats, so that a lost write does not record it twice.
func (s *Scope) WarnOnWrite(reason, message string) {
	s.warnings = append(s.warnings, warning{reason, message})
}

// SetCondition writes a condition of the Machine.
func (s *Scope) SetCondition(name string, v status.Verdict) {
	status.SetCondition(s.Machine, name, v, metav1.NewTime(s.Now()))
}

// ComputeStatus writes the whole status from the facts and the result.
func (s *Scope) ComputeStatus() {
	status.Compute(&status.Input{
		Machine: s.Machine, Base: s.Base, Facts: s.Facts(), Result: s.Result, Start: s.store.Start, Now: metav1.NewTime(s.Now()),
	})
}

// WroteNode takes the Node as it is after a write for the rest of the reconcile.
func (s *Scope) WroteNode(node *corev1.Node) {
	s.Observed.Node = node
	s.store.memory.wroteNode(s.Machine, node, s.Now())
}

// CacheOld reports whether the cache shows a Node of the Machine from before this process's own last write of it.
func (s *Scope) CacheOld(node *corev1.Node) bool {
	return s.store.memory.cacheOld(s.Machine, node, s.Now())
}

// DeletionBegun reports whether this process was allowed to begin the Machine's deletion.
func (s *Scope) DeletionBegun() bool { return s.store.memory.hasBegun(s.Machine) }

// StartUnsent reports whether the start of the server that the Machine records was recorded by this process, and not sent to the
// cloud yet.
func (s *Scope) StartUnsent() bool {
	record := s.Machine.Status.ServerStart
	return record != nil && s.store.memory.startUnsent(s.Machine, record.Time.Time)
}

// SetStartUnsent remembers whether the start that the Machine records is still to be sent to the cloud.
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

// RequeueForced has a Machine whose deletion is forced looked at again when the time of the next wait is over.
func (s *Scope) RequeueForced() {
	if !s.Forced() {
		return
	}
	forced := s.ForcedFor()
	s.RequeueWithin(ForcedDrain - forced)
	s.RequeueWithin(max(ForcedDeletion-forced, time.Second))
}
