package nodegroup

import (
	"context"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// setMaximum sets the maximum of spec.replicas in the schema of MachineDeployments. If the maximum is nil, the schema gets none,
// as in older releases.
func (s *site) setMaximum(maximum any) {
	s.t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: "machinedeployments.cluster.k8s.io"}, crd); err != nil {
		s.t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	replicas := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "replicas", "maximum"}
	if maximum == nil {
		unstructured.RemoveNestedField(versions[0].(map[string]any), replicas...)
	} else if err := unstructured.SetNestedField(versions[0].(map[string]any), maximum, replicas...); err != nil {
		s.t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Update(s.t.Context(), crd, client.FieldOwner(deploy.FieldManager)); err != nil {
		s.t.Fatal(err)
	}
}

// heap returns how many bytes of the heap are in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// testASizeBeyondTheMaximum stores a size of 2,000,000,000 under a schema without a maximum, as in older releases.
func (s *site) testASizeBeyondTheMaximum(t *testing.T) {
	s.setMaximum(nil)
	s.pool("other", 2)
	d := s.sized("absurd", 10)
	id := membership.ID(d.Namespace, d.Name)
	s.eventually("the group is listed", func() bool {
		size, err := s.groups.TargetSize(id)
		return s.groups.Refresh(t.Context()) == nil && err == nil && size == 10
	})
	before := heap()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2000000000}}`))
	// The API server enforces the changed schema with a delay, so the test repeats the patch.
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return s.client.Patch(ctx, d, patch) == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	s.setMaximum(int64(v1alpha1.MaxReplicas))
	t.Run("a group with a size of 2,000,000,000 is no longer listed, and other groups are still served (F-29)", func(t *testing.T) {
		s.eventually("it has left", func() bool {
			_, err := s.groups.TargetSize(id)
			return s.groups.Refresh(t.Context()) == nil && model.KindOf(err) == model.NotFound
		})
		if list, err := s.groups.Instances(membership.ID(metav1.NamespaceSystem, "other")); len(list) != 2 || err != nil {
			t.Errorf("the other group has %v, error %v", list, err)
		}
	})
	t.Run("the memory of drover does not grow with the size (F-29)", func(t *testing.T) {
		if after := heap(); after > before+16<<20 {
			t.Errorf("the heap grew from %d to %d bytes", before, after)
		}
	})
	t.Run("the group is listed again after its size was corrected (F-29)", func(t *testing.T) {
		if err := s.client.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`))); err != nil {
			t.Fatal(err)
		}
		s.eventually("it is listed", func() bool {
			size, err := s.groups.TargetSize(id)
			return s.groups.Refresh(t.Context()) == nil && err == nil && size == 3
		})
	})
}
