package deployment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

func TestADeploymentWithTooLargeSpecReplicasCreatesNothing(t *testing.T) {
	r, snapshots := limited(t, 0, 0)
	recorder := r.writes.events.(*events.FakeRecorder)
	d := &v1alpha1.MachineDeployment{}
	key := client.ObjectKeyFromObject(snapshots[0].Deployment)
	look := func() {
		t.Helper()
		if err := r.client.Get(t.Context(), key, d); err != nil {
			t.Fatal(err)
		}
	}
	look()
	d.Finalizers, d.Spec.Replicas = []string{metav1.FinalizerDeleteDependents}, new(int32(2_000_000_000))
	if err := r.client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	look()
	t.Run("a condition and an Event report that spec.replicas is too large (F-29)", func(t *testing.T) {
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionProgressing)
		if c == nil || c.Reason != rollout.ReasonSizeTooLarge || !strings.Contains(c.Message, "spec.replicas is 2000000000, and at most 100000 are possible") {
			t.Errorf("%+v", c)
		}
		if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, "SizeTooLarge") {
			t.Error("there is no Event")
		}
	})
	t.Run("drover creates no set beside the two that exist (F-29)", func(t *testing.T) {
		var sets v1alpha1.MachineSetList
		if err := r.client.List(t.Context(), &sets); err != nil || len(sets.Items) != 2 {
			t.Errorf("%d sets, error %v", len(sets.Items), err)
		}
	})
}

func TestAPausedDeploymentDoesNothing(t *testing.T) {
	for _, value := range []string{"true", "", "false"} {
		t.Run("the sets keep their sizes after a change of spec.replicas, because the paused annotation pauses with any value, here \""+value+"\" (F-27)", func(t *testing.T) {
			r, snapshots := limited(t, 0, 0)
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
				t.Errorf("the sets had %d Machines in total, and now have the size %d", before, after)
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
