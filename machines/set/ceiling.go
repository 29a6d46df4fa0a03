package set

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// releasedIndex finds Machines by the UID of the set that released them.
const releasedIndex = "machineset.released"

func releasedBy(o client.Object) []string {
	if uid := o.GetAnnotations()[v1alpha1.AnnotationReleasedBy]; uid != "" {
		return []string{uid}
	}
	return nil
}

// ceiling is how many living Machines a set of a size may have made: its own, and those that it released (MCM-35).
// Something is wrong beyond it, such as a program that takes the labels off every new Machine. Machines that are deleting
// do not count: after a large scale-down with slow drains a set must still be able to grow.
func ceiling(wanted int) int {
	const spare = 10
	return 2*wanted + spare
}

// underCeiling lowers a number of Machines to make to what the ceiling leaves; the error says why, when that is fewer.
func underCeiling(create, wanted, released int) (int, error) {
	living := wanted - create
	left := max(0, ceiling(wanted)-living-released)
	if create <= left {
		return create, nil
	}
	return left, fmt.Errorf("making %d of %d Machines: the set released %d whose labels no longer matched, and with %d living ones the ceiling is %d; a released one counts until it goes or loses the annotation %s",
		left, create, released, living, ceiling(wanted), v1alpha1.AnnotationReleasedBy)
}

// conditions says how the set stands: Available when all its Machines are, ReplicaFailure when it cannot make them.
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
