package set

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestANegativeSizeOfASetBecomesTheNumberOfMachinesThatStay(t *testing.T) {
	for name, tt := range map[string]struct {
		remove []string
		want   int32
	}{
		"counts every living Machine":                                                  {nil, 2},
		"does not count a Machine that spec.removals names":                            {[]string{"a"}, 1},
		"counts a Machine when an entry of spec.removals has its name but another UID": {[]string{"another"}, 2},
	} {
		t.Run("the new size "+name, func(t *testing.T) {
			r, creates := withClient(t, func(int) error { return nil })
			set := testSet(-1)
			set.Finalizers = []string{metav1.FinalizerDeleteDependents}
			for _, uid := range tt.remove {
				set.Spec.Removals = append(set.Spec.Removals, v1alpha1.Removal{Name: "a", UID: types.UID(uid), Time: metav1.NewTime(start)})
			}
			objects := []client.Object{set}
			for _, m := range []*v1alpha1.Machine{machine("a", 0), machine("b", -1)} {
				m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)}
				objects = append(objects, m)
			}
			for _, o := range objects {
				if err := r.client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			*creates = 0
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
				t.Fatal(err)
			}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			if got := *set.Spec.Replicas; got != tt.want || *creates != 0 {
				t.Errorf("the size is %d after %d creates, want %d after none", got, *creates, tt.want)
			}
		})
	}
}
