package deployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAPausedDeployment(t *testing.T) {
	for _, value := range []string{"true", "", "false"} {
		t.Run("does not size its sets, as a Machine with the value \""+value+"\" makes no server (F-27)", func(t *testing.T) {
			r, snapshots := braked(t, 0, 0)
			d := &v1alpha1.MachineDeployment{}
			key := client.ObjectKeyFromObject(snapshots[0].Deployment)
			if err := r.client.Get(t.Context(), key, d); err != nil {
				t.Fatal(err)
			}
			d.Finalizers, d.Spec.Replicas = []string{metav1.FinalizerDeleteDependents}, new(int32(7))
			d.Annotations = map[string]string{v1alpha1.AnnotationPaused: value}
			if err := r.client.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			before := sizes(t, r)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if after := sizes(t, r); before != after {
				t.Errorf("the sets had %d Machines in sum, and are to have %d", before, after)
			}
		})
	}
}

// sizes returns the sum of the sizes of all sets.
func sizes(t *testing.T, r *Reconciler) (sum int32) {
	t.Helper()
	var sets v1alpha1.MachineSetList
	if err := r.client.List(t.Context(), &sets); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		sum += *sets.Items[i].Spec.Replicas
	}
	return sum
}
