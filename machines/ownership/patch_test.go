package ownership

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// store returns a writer to a fake API server that holds one set of two Machines. It also returns that set.
func store(t *testing.T) (Writer, *v1alpha1.MachineSet) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "u", Annotations: map[string]string{"a": "b"}}}
	set.Spec.Replicas = new(int32(2))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithStatusSubresource(&v1alpha1.MachineSet{}).Build()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	return Writer{Client: c, FieldManager: "tester"}, set
}

func TestAMergePatchWritesOnlyTheGivenFields(t *testing.T) {
	w, set := store(t)
	metadata := Metadata(set)
	metadata["annotations"] = map[string]any{"a": nil, "c": "d"}
	if err := w.Merge(t.Context(), set, map[string]any{"metadata": metadata}); err != nil {
		t.Fatal(err)
	}
	if *set.Spec.Replicas != 2 || len(set.Annotations) != 1 || set.Annotations["c"] != "d" {
		t.Errorf("replicas %d and annotations %v, want 2 and only c", *set.Spec.Replicas, set.Annotations)
	}
}

func TestTheAPIServerRefusesAMergePatchWithAnOldResourceVersionAsAConflict(t *testing.T) {
	w, set := store(t)
	older := set.DeepCopy()
	if err := w.Merge(t.Context(), set, map[string]any{"spec": map[string]any{"replicas": 3}}); err != nil {
		t.Fatal(err)
	}
	err := w.Merge(t.Context(), older.DeepCopy(), map[string]any{"metadata": Metadata(older), "spec": map[string]any{"replicas": 4}})
	if !apierrors.IsConflict(err) {
		t.Errorf("Merge() = %v, want a Conflict", err)
	}
}

func TestApplyStatusWritesTheStatusAndIgnoresChangesOfTheObjectsSpec(t *testing.T) {
	w, set := store(t)
	set.Spec.Replicas = new(int32(5))
	if err := w.ApplyStatus(t.Context(), set, &v1alpha1.MachineSetStatus{Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	var now v1alpha1.MachineSet
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(set), &now); err != nil {
		t.Fatal(err)
	}
	if now.Status.Replicas != 2 || *now.Spec.Replicas != 2 {
		t.Errorf("status %+v and replicas %d, want 2 and 2", now.Status, *now.Spec.Replicas)
	}
}
