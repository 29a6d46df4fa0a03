package deployment

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// statusPace is the least time between two writes of a deployment's numbers. The first change after a pause is written at
// once, and so is what is urgent.
const statusPace = 15 * time.Second

// urgent reports whether a change of the status must be written at once: anything but the numbers of Machines, and the
// messages and times of conditions. The last size, for one, is what comes back when a writer drops spec.replicas.
func urgent(stored, now v1alpha1.MachineDeploymentStatus) bool {
	return !equality.Semantic.DeepEqual(withoutNumbers(owned(stored)), withoutNumbers(owned(now)))
}

// withoutNumbers returns a status without what changes with every Machine.
func withoutNumbers(st v1alpha1.MachineDeploymentStatus) v1alpha1.MachineDeploymentStatus {
	st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas = 0, 0, 0, 0, 0
	for i := range st.Conditions {
		st.Conditions[i].Message, st.Conditions[i].LastTransitionTime = "", metav1.Time{}
	}
	return st
}

// showStatus writes the status when it differs from what is stored and its time has come, and returns how long it is until
// then.
func (r *Reconciler) showStatus(ctx context.Context, d *v1alpha1.MachineDeployment, st v1alpha1.MachineDeploymentStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(owned(d.Status), owned(st)) {
		return 0, nil
	}
	if left := r.pace.Left(client.ObjectKeyFromObject(d), statusPace, r.clock.Now()); left > 0 && !urgent(d.Status, st) {
		return left, nil
	}
	return 0, r.writeStatus(ctx, d, st)
}
