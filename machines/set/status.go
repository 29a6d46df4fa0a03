package set

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons in status.errorReason.
const (
	reasonInvalid = "InvalidConfiguration"
	reasonSize    = rollout.ReasonSizeTooLarge
	reasonWaits   = "WaitingForServers"
	reasonStopped = "ReconcileFailed"
)

// reasonOf returns the reason for the first of the errors that is not nil; one is not.
func reasonOf(acted, waits error) string {
	switch {
	case acted != nil:
		return string(createCode(acted))
	case errors.Is(waits, v1alpha1.ErrProviderSpecTooLarge):
		return reasonInvalid
	}
	return reasonWaits
}

// createCode returns the code of an error of the API server about creating Machines. The text is read because an exceeded quota has no code
// of its own there.
func createCode(err error) fault.Code {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return fault.CodeObjectQuotaExceeded
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fault.CodeMachineRefused
	}
	return fault.CodeCreateError
}

// keepError keeps the stored error of a create whose outcome is unknown until the outcome is known (decision 0030). Otherwise the error of
// a webhook that does not answer would be gone a moment after each try.
func (s observed) keepError(st *v1alpha1.MachineSetStatus) {
	former := s.set.Status
	if s.unseen > 0 && former.ErrorReason != nil && fault.ConcernsObjects(fault.Code(*former.ErrorReason)) {
		st.ErrorReason, st.ErrorMessage = former.ErrorReason, former.ErrorMessage
	}
}

// status returns the status of a set, with the counts of its living Machines. Among them are Machines that the cache does not show yet.
func (s observed) status(selector labels.Selector) v1alpha1.MachineSetStatus {
	st := v1alpha1.MachineSetStatus{ObservedGeneration: s.set.Generation, Selector: selector.String(), Replicas: int32(s.unseen)}
	template := labels.SelectorFromSet(s.set.Spec.Template.Metadata.Labels)
	for _, f := range s.machines {
		if !f.Living() {
			continue
		}
		st.Replicas++
		if template.Matches(labels.Set(f.Machine.Labels)) {
			st.FullyLabeledReplicas++
		}
		if f.NodeReady {
			st.ReadyReplicas++
		}
		if f.Available {
			st.AvailableReplicas++
		}
	}
	return st
}

// failedStatus returns the status for a set that is not compared with its Machines since the given time: the counts stay as they are
// stored, and the error describes the fault.
func failedStatus(set *v1alpha1.MachineSet, reason string, err error, since time.Time) v1alpha1.MachineSetStatus {
	st := withoutOthers(*set.Status.DeepCopy())
	st.ErrorReason, st.ErrorMessage = &reason, bounded(err.Error())
	size, _ := wanted(set, int(st.Replicas))
	st.Conditions = conditions(set, st, decision{wanted: size, frozen: rollout.WhyFrozen(set.Status.Conditions)}, since)
	return st
}

// machineName matches what an answer of the API server adds to the kind of a Machine. It is another name with each create.
var machineName = regexp.MustCompile(`(machines\.cluster\.k8s\.io) "[^"]*"`)

// bounded returns a message as one line of a length that leaves room for the remedy, which often stands at the end. An error that each
// attempt repeats has the same message.
func bounded(message string) *string {
	return ptr.To(fault.Repeated(machineName.ReplaceAllString(message, "$1")))
}

// remedy returns what a person can do about an error of creating or deleting Machines, as the end of a message; empty without an error.
func remedy(acted error) string {
	switch {
	case acted == nil:
		return ""
	case createCode(acted) == fault.CodeMachineRefused:
		return "; change what the API server or the admission webhook refuses; drover tries again automatically"
	}
	return "; " + fault.PolicyOf(fault.ClassOf(createCode(acted))).Remedy
}

// statuses writes the status of sets.
type statuses struct{ ownership.Statuses }

// write applies the status when it differs from what is stored. It leaves the template, the back-offs and the conditions of other
// controllers alone.
func (s *statuses) write(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) error {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
		return nil
	}
	return s.Write(ctx, set, &st)
}

// ours lists the conditions that this controller writes.
var ours = []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReplicaFailure, v1alpha1.ConditionWarnings, v1alpha1.ConditionFrozen}

// withoutOthers returns a status without the fields that only other controllers write.
func withoutOthers(st v1alpha1.MachineSetStatus) v1alpha1.MachineSetStatus {
	st.NodeTemplate, st.Backoffs, st.JoinOutcomes, st.RecentJoins, st.HealthReplacements = nil, nil, nil, "", nil
	return st
}

// ownedStatus returns the part of a status that this controller writes, with times in whole seconds, as the API server stores them.
func ownedStatus(st v1alpha1.MachineSetStatus) v1alpha1.MachineSetStatus {
	st = withoutOthers(st)
	st.Conditions = ownership.ConditionsOf(st.Conditions, ours)
	return st
}

// conditions returns the conditions of a set: Available when all its Machines are available, ReplicaFailure when the set cannot create
// Machines, Frozen when it may not, and, for a set without a deployment, Warnings when its spec has fields that drover does not use.
func conditions(set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus, next decision, now time.Time) []metav1.Condition {
	wanted := next.wanted
	available := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "AllAvailable",
		Message: fmt.Sprintf("%d of %d Machines are available", st.AvailableReplicas, wanted)}
	if int(st.AvailableReplicas) < wanted {
		available.Status, available.Reason = metav1.ConditionFalse, "TooFewAvailable"
		available.Message += "; " + cmp.Or(next.held, "the conditions of the others show what they wait for")
	} else if next.held != "" {
		available.Message += "; " + next.held
	}
	failure := metav1.Condition{Type: v1alpha1.ConditionReplicaFailure, Status: metav1.ConditionFalse, Reason: "AsExpected"}
	if st.ErrorReason != nil {
		failure.Status, failure.Reason, failure.Message = metav1.ConditionTrue, *st.ErrorReason, *st.ErrorMessage
	}
	all := []metav1.Condition{available, failure}
	if texts := set.Spec.WithoutEffect(); len(texts) > 0 && metav1.GetControllerOfNoCopy(set) == nil {
		all = append(all, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: "WithoutEffect",
			Message: fault.Line(strings.Join(texts, "; "))})
	}
	if c := rollout.FrozenCondition(set.Status.Conditions, next.frozen); c != nil {
		all = append(all, *c)
	}
	for i := range all {
		all[i] = rollout.Dated(set.Status.Conditions, all[i], set.Generation, now)
	}
	return all
}

const (
	// statusInterval is the least time between two writes of the counts of Machines in a set's status. The first change after that
	// time is written immediately. Errors are always written immediately.
	statusInterval = 2 * time.Second
	// ownedStatusInterval replaces statusInterval for a set of a deployment. It is longer, because users read the counts of such a
	// set in the deployment's status instead.
	ownedStatusInterval = 25 * time.Second
)

// urgent reports whether a set's status must be written immediately: its error or its freeze has changed, or its size is 0 and its last
// Machine is gone, because a rollout waits for that. No controller waits for other counts.
func urgent(set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) bool {
	empty := st.Replicas == 0 && ptr.Deref(set.Spec.Replicas, 1) == 0
	froze := (rollout.WhyFrozen(set.Status.Conditions) == "") != (rollout.WhyFrozen(st.Conditions) == "")
	return empty || froze || !ptr.Equal(set.Status.ErrorReason, st.ErrorReason)
}

// writeWhenDue writes the status when it differs from what is stored, and is urgent or due. It returns how long to wait until the write
// is due.
func (s *statuses) writeWhenDue(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
		return 0, nil
	}
	every := statusInterval
	if metav1.GetControllerOfNoCopy(set) != nil {
		every = ownedStatusInterval
	}
	return s.WriteWhenDue(ctx, set, &st, every, urgent(set, st))
}
