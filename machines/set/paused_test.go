package set

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAPausedSet(t *testing.T) {
	for _, key := range []string{v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI} {
		for _, value := range []string{"true", "", "false"} {
			t.Run("makes no Machine, as a Machine with "+key+": \""+value+"\" makes no server (F-27)", func(t *testing.T) {
				r, calls := withClient(t, func(int) error { return nil })
				set := testSet(1)
				set.Finalizers, set.Annotations = []string{metav1.FinalizerDeleteDependents}, map[string]string{key: value}
				if err := r.client.Create(t.Context(), set); err != nil {
					t.Fatal(err)
				}
				*calls = 0
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil || *calls != 0 {
					t.Errorf("%d Machines were made, %v", *calls, err)
				}
			})
		}
	}
}
