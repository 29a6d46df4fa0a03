package set

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/reach"
)

func TestAFrozenSet(t *testing.T) {
	frozen := func(replicas int32) *v1alpha1.MachineSet {
		s := testSet(replicas)
		s.Labels = map[string]string{v1alpha1.LabelFreeze: v1alpha1.Frozen}
		return s
	}
	decided := func(s *v1alpha1.MachineSet, machines ...*v1alpha1.Machine) decision {
		return decide(observe(s, machines, s.Spec.Removals, unmet{}, start))
	}
	t.Run("makes no Machine (MCM-70)", func(t *testing.T) {
		if d := decided(frozen(3), machine("a", 1)); d.create != 0 || d.wanted != 3 {
			t.Errorf("it decides %+v", d)
		}
	})
	t.Run("makes what it lacks once it is free (MCM-71)", func(t *testing.T) {
		if d := decided(testSet(3), machine("a", 1)); d.create != 2 {
			t.Errorf("it decides %+v", d)
		}
	})
	t.Run("is free with another value of the label (MCM-78)", func(t *testing.T) {
		s := frozen(3)
		s.Labels[v1alpha1.LabelFreeze] = "true"
		if d := decided(s, machine("a", 1)); d.create != 2 {
			t.Errorf("it decides %+v", d)
		}
	})
	t.Run("deletes what is too many, and what is listed (MCM-76)", func(t *testing.T) {
		if d := decided(frozen(1), machine("a", 1), machine("b", 1)); len(d.remove) != 1 {
			t.Errorf("too many: it decides %+v", d)
		}
		s := frozen(1)
		s.Spec.Removals = []v1alpha1.Removal{{Name: "a", UID: "a"}}
		if d := decided(s, machine("a", 1), machine("b", 1)); len(d.remove) != 1 || d.remove[0].Name != "a" {
			t.Errorf("listed: it decides %+v", d)
		}
	})
}

func TestASetWhileAnAPIServerCannotBeReached(t *testing.T) {
	r, calls := withClient(t, func(int) error { return nil })
	now := clocktesting.NewFakeClock(start)
	r = with(r, func(o *Options) { o.Reach = reach.New(reach.Options{Clock: now}) })
	set := testSet(2)
	set.Finalizers = []string{metav1.FinalizerDeleteDependents}
	if err := r.client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	*calls = 0
	reconcile := func() ctrl.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	t.Run("makes no Machine, and looks again (MCM-79)", func(t *testing.T) {
		if result := reconcile(); *calls != 0 || result.RequeueAfter == 0 || result.RequeueAfter > retryReach {
			t.Errorf("%d Machines were made, and it looks again after %v", *calls, result.RequeueAfter)
		}
	})
	t.Run("makes them once it can be (MCM-79)", func(t *testing.T) {
		r.options.Reach.AnsweredControl()
		if reconcile(); *calls != 2 {
			t.Errorf("%d Machines were made", *calls)
		}
	})
	t.Run("makes none after an outage before the caches have had their time (MCM-79)", func(t *testing.T) {
		now.Step(time.Hour)
		r.options.Reach.AnsweredControl()
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		set.Spec.Replicas = new(int32(5))
		if err := r.client.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		*calls = 0
		reconcile()
		if *calls != 0 {
			t.Errorf("%d Machines were made", *calls)
		}
	})
}
