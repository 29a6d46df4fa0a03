package set

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/patch"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons in status.errorReason.
const (
	reasonInvalid = "InvalidConfiguration"
	reasonSize    = rollout.ReasonSizeTooLarge
	reasonCreate  = "CreateError"
	reasonCeiling = "TooManyMachines"
)

// status counts the living Machines.
func (s seen) status(selector labels.Selector) v1alpha1.MachineSetStatus {
	st := v1alpha1.MachineSetStatus{ObservedGeneration: s.set.Generation, Selector: selector.String()}
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

// failedStatus returns the stored numbers with an error that describes what is wrong with the spec.
func failedStatus(set *v1alpha1.MachineSet, reason string, err error, now metav1.Time) v1alpha1.MachineSetStatus {
	st := withoutOthers(*set.Status.DeepCopy())
	st.ObservedGeneration = set.Generation
	st.ErrorReason, st.ErrorMessage = &reason, bounded(err.Error())
	wanted := st.Replicas
	if set.Spec.Replicas != nil {
		wanted = *set.Spec.Replicas
	}
	st.Conditions = conditions(set, st, int(wanted), now)
	return st
}

// bounded returns a message of at most 4096 bytes, cut between two characters: the status of a set keeps what to do about an
// error, which often stands at the end.
func bounded(message string) *string {
	const limit, ellipsis = 4096, "…"
	if len(message) > limit {
		message = strings.ToValidUTF8(message[:limit-len(ellipsis)], "") + ellipsis
	}
	return &message
}

// statuses writes the status of sets.
type statuses struct {
	writer patch.Writer
	clock  clock.PassiveClock
	pace   ownership.StatusThrottle
}

// write applies the status when it differs from what is stored. Template, back-offs and other conditions are not this
// controller's.
func (s *statuses) write(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) error {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
		return nil
	}
	if err := s.writer.ApplyStatus(ctx, set, &st); err != nil {
		return fmt.Errorf("writing the status of %s %s/%s: %w", v1alpha1.MachineSetKind.Kind, set.Namespace, set.Name, err)
	}
	return nil
}

// ours are the conditions that this controller writes.
var ours = []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReplicaFailure}

// withoutOthers returns a status without the fields that other controllers own.
func withoutOthers(st v1alpha1.MachineSetStatus) v1alpha1.MachineSetStatus {
	st.NodeTemplate, st.Backoffs, st.JoinOutcomes, st.RecentJoins, st.HealthReplacements = nil, nil, nil, "", nil
	return st
}

// ownedStatus reduces a status to what this controller owns, as the API server stores it: times in whole seconds.
func ownedStatus(st v1alpha1.MachineSetStatus) v1alpha1.MachineSetStatus {
	st = withoutOthers(st)
	var conditions []metav1.Condition
	for _, kind := range ours {
		if c := meta.FindStatusCondition(st.Conditions, kind); c != nil {
			c := *c
			c.LastTransitionTime = c.LastTransitionTime.Rfc3339Copy()
			conditions = append(conditions, c)
		}
	}
	st.Conditions = conditions
	return st
}

// conditions returns how the set stands: Available when all its Machines are, ReplicaFailure when it cannot make them.
func conditions(set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus, wanted int, now metav1.Time) []metav1.Condition {
	available := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "AllAvailable",
		Message: fmt.Sprintf("%d of %d Machines are available", st.AvailableReplicas, wanted)}
	if int(st.AvailableReplicas) < wanted {
		available.Status, available.Reason = metav1.ConditionFalse, "TooFewAvailable"
	}
	failure := metav1.Condition{Type: v1alpha1.ConditionReplicaFailure, Status: metav1.ConditionFalse, Reason: "AsExpected"}
	if st.ErrorReason != nil {
		failure.Status, failure.Reason, failure.Message = metav1.ConditionTrue, *st.ErrorReason, *st.ErrorMessage
	}
	all := []metav1.Condition{available, failure}
	for i := range all {
		all[i].ObservedGeneration, all[i].LastTransitionTime = set.Generation, now
		for _, former := range set.Status.Conditions {
			if former.Type == all[i].Type && former.Status == all[i].Status {
				all[i].LastTransitionTime = former.LastTransitionTime
			}
		}
	}
	return all
}

const (
	// statusPace is the least time between two writes of a set's numbers. The first change after a pause is written at once,
	// and so are errors.
	statusPace = 2 * time.Second
	// ownedStatusPace is that of a set of a deployment, whose own status shows the numbers to people.
	ownedStatusPace = 25 * time.Second
)

// urgent reports whether a set's status must be written at once: a change of its error, and that the set is empty and is to
// be, for which the planner waits. It decides nothing by the other numbers, and node groups count Machines themselves.
func urgent(set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) bool {
	empty := st.Replicas == 0 && ptr.Deref(set.Spec.Replicas, 1) == 0
	return empty || !ptr.Equal(set.Status.ErrorReason, st.ErrorReason)
}

// show writes the status when it differs from what is stored and is urgent or its time has come, and returns how long
// it is until then.
func (s *statuses) show(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
		return 0, nil
	}
	every := statusPace
	if metav1.GetControllerOfNoCopy(set) != nil {
		every = ownedStatusPace
	}
	left := s.pace.Left(client.ObjectKeyFromObject(set), every, s.clock.Now())
	if left > 0 && !urgent(set, st) {
		return left, nil
	}
	return 0, s.write(ctx, set, st)
}
