package set

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestASetWhoseStoredSizeIsTooLarge(t *testing.T) {
	r, calls := withClient(t, func(int) error { return nil })
	recorder := r.events.(*events.FakeRecorder)
	set := testSet(2_000_000_000)
	set.Finalizers = []string{metav1.FinalizerDeleteDependents}
	if err := r.client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	*calls = 0
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	t.Run("makes no Machine (F-29)", func(t *testing.T) {
		if *calls != 0 {
			t.Errorf("%d were made", *calls)
		}
	})
	t.Run("says so in a condition and an Event (F-29)", func(t *testing.T) {
		c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReplicaFailure)
		if c == nil || c.Reason != "SizeTooLarge" || !strings.Contains(c.Message, "spec.replicas is 2000000000, and at most 100000 are possible") {
			t.Errorf("%+v", c)
		}
		if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, "SizeTooLarge") {
			t.Error("there is no Event")
		}
	})
}
