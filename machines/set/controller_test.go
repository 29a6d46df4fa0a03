package set

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/reach"
)

func TestWhichSetsTheControllerRefusesToReconcile(t *testing.T) {
	t.Run("a set is refused when its deletePolicy is unknown, and when its selector does not match its template (MC-38, MCM-1)", func(t *testing.T) {
		set := testSet(1)
		set.Spec.DeletePolicy = "Sometimes"
		if _, err := check(set); err == nil {
			t.Error("check() of an unknown deletePolicy returned no error")
		}
		set = testSet(1)
		set.Spec.Selector.MatchLabels["x"] = "y"
		if _, err := check(set); err == nil {
			t.Error("check() of a selector that does not match returned no error")
		}
	})
}

func TestWhatASetCreatesDuringAndAfterAnAPIServerOutage(t *testing.T) {
	type fixture struct {
		r     *Reconciler
		calls *int
		clock *clocktesting.FakeClock
		set   *v1alpha1.MachineSet
	}
	setup := func(t *testing.T) fixture {
		t.Helper()
		r, calls := withClient(t, func(int) error { return nil })
		f := fixture{calls: calls, clock: clocktesting.NewFakeClock(start), set: testSet(2)}
		f.r = with(r, func(o *Options) { o.Reach = reach.New(reach.Options{Clock: f.clock}) })
		f.set.Finalizers = []string{metav1.FinalizerDeleteDependents}
		if err := f.r.client.Create(t.Context(), f.set); err != nil {
			t.Fatal(err)
		}
		*calls = 0
		return f
	}
	reconcile := func(t *testing.T, f fixture) ctrl.Result {
		t.Helper()
		result, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.set)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	t.Run("the set creates no Machine while the API server is unreachable, and is soon reconciled again (MCM-79)", func(t *testing.T) {
		f := setup(t)
		if result := reconcile(t, f); *f.calls != 0 || result.RequeueAfter == 0 || result.RequeueAfter > retryReach {
			t.Errorf("%d Machines were created, reconciled again after %v", *f.calls, result.RequeueAfter)
		}
	})
	t.Run("the set creates its Machines once the API server is reachable (MCM-79)", func(t *testing.T) {
		f := setup(t)
		f.r.options.Reach.AnsweredControl()
		if reconcile(t, f); *f.calls != 2 {
			t.Errorf("%d Machines were created, want 2", *f.calls)
		}
	})
	t.Run("the set creates no Machine right after an outage, while the informer caches may be out of date (MCM-79)", func(t *testing.T) {
		f := setup(t)
		f.r.options.Reach.AnsweredControl()
		f.clock.Step(time.Hour)
		f.r.options.Reach.AnsweredControl()
		if reconcile(t, f); *f.calls != 0 {
			t.Errorf("%d Machines were created, want none", *f.calls)
		}
	})
}

func TestAPausedSetCreatesNoMachine(t *testing.T) {
	for _, key := range []string{v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI} {
		for _, value := range []string{"true", "", "false"} {
			t.Run("a set creates no Machine when it has the annotation "+key+": \""+value+"\" (F-27)", func(t *testing.T) {
				r, calls := withClient(t, func(int) error { return nil })
				set := testSet(1)
				set.Finalizers, set.Annotations = []string{metav1.FinalizerDeleteDependents}, map[string]string{key: value}
				if err := r.client.Create(t.Context(), set); err != nil {
					t.Fatal(err)
				}
				*calls = 0
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil || *calls != 0 {
					t.Errorf("%d Machines were created, %v", *calls, err)
				}
			})
		}
	}
}

func TestASetWithATooLargeStoredSize(t *testing.T) {
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
	t.Run("the set creates no Machine (F-29)", func(t *testing.T) {
		if *calls != 0 {
			t.Errorf("%d Machines were created", *calls)
		}
	})
	t.Run("a condition and an Event of the set report the size (F-29)", func(t *testing.T) {
		c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReplicaFailure)
		if c == nil || c.Reason != "SizeTooLarge" || !strings.Contains(c.Message, "spec.replicas is 2000000000, and at most 100000 are possible") {
			t.Errorf("%+v", c)
		}
		if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, "SizeTooLarge") {
			t.Error("there is no Event")
		}
	})
}
