package set

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

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

// showStatus writes the status when it differs from what is stored and is urgent or its time has come, and returns how long
// it is until then.
func (r *Reconciler) showStatus(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
		return 0, nil
	}
	every := statusPace
	if metav1.GetControllerOfNoCopy(set) != nil {
		every = ownedStatusPace
	}
	left := r.pace.Left(client.ObjectKeyFromObject(set), every, r.clock.Now())
	if left > 0 && !urgent(set, st) {
		return left, nil
	}
	return 0, r.writeStatus(ctx, set, st)
}
