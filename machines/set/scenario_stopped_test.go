package set

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// failing is a controller whose first calls fail.
type failing struct {
	*Reconciler
	clock *clocktesting.FakeClock
	key   client.ObjectKey
	// writes counts the writes of the status.
	writes int
}

// failsFor returns a controller that cannot patch or list for the given time. The first such call fails in any case.
func failsFor(t *testing.T, d time.Duration, set *v1alpha1.MachineSet) *failing {
	t.Helper()
	clock := clocktesting.NewFakeClock(start)
	r, _ := withClient(t, func(int) error { return nil })
	r = with(r, func(o *Options) { o.Clock = clock })
	must(t, r.client.Create(t.Context(), set))
	f := &failing{clock: clock, key: client.ObjectKeyFromObject(set)}
	failed := false
	fails := func() error {
		if failed && clock.Since(start) >= d {
			return nil
		}
		failed = true
		return errors.New("etcdserver: request timed out")
	}
	f.Reconciler = through(r, interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := fails(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := fails(); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, name string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			f.writes++
			return c.SubResource(name).Apply(ctx, o, opts...)
		},
	}))
	return f
}

// after reconciles the set for the given time, and returns it.
func (f *failing) after(t *testing.T, d time.Duration) *v1alpha1.MachineSet {
	t.Helper()
	lives(t, f.Reconciler, f.clock, ctrl.Request{NamespacedName: f.key}, d)
	set := &v1alpha1.MachineSet{}
	must(t, f.client.Get(t.Context(), f.key, set))
	return set
}

func TestASetShowsAFailureOfItsReconcilesOnlyWhenItLasts(t *testing.T) {
	// full is a set that has what it wants, so that nothing else is written.
	full := func() *v1alpha1.MachineSet {
		set := testSet(0)
		set.Finalizers = []string{metav1.FinalizerDeleteDependents}
		return set
	}
	t.Run("one failed call causes no write of the status (F-114)", func(t *testing.T) {
		f := failsFor(t, 0, full())
		if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key}); err == nil || f.writes != 0 {
			t.Errorf("the reconcile returned %v, and the status was written %d times", err, f.writes)
		}
		if set := f.after(t, 2*time.Minute); set.Status.ErrorReason != nil || f.writes != 1 {
			t.Errorf("the status was written %d times: %+v", f.writes, set.Status)
		}
	})
	t.Run("two short failures with a success between them are not shown (F-114)", func(t *testing.T) {
		set := full()
		f := failsFor(t, 0, set)
		f.after(t, 10*time.Second)
		f.clock.Step(time.Hour)
		if err := f.stopped(t.Context(), set, errors.New("timeout")); err == nil || f.writes != 1 {
			t.Errorf("stopped() returned %v, and the status was written %d times", err, f.writes)
		}
	})
	t.Run("a failure of 90 s is shown, since its beginning, and vanishes with it (F-114)", func(t *testing.T) {
		f := failsFor(t, 90*time.Second, full())
		set := f.after(t, 90*time.Second)
		c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReplicaFailure)
		if c == nil || c.Reason != reasonStopped || !c.LastTransitionTime.Time.Equal(start) || f.writes != 1 {
			t.Errorf("the status was written %d times: %+v", f.writes, set.Status)
		}
		if set = f.after(t, time.Minute); set.Status.ErrorReason != nil {
			t.Errorf("the set still shows %s", *set.Status.ErrorReason)
		}
	})
	t.Run("a failure of 90 s does not replace the error of a create (CA-C49)", func(t *testing.T) {
		set := full()
		set.Status.ErrorReason, set.Status.ErrorMessage = ptr.To(string(fault.CodeObjectQuotaExceeded)), ptr.To("exceeded quota: q")
		f := failsFor(t, 90*time.Second, set)
		if set = f.after(t, 90*time.Second); ptr.Deref(set.Status.ErrorReason, "") != string(fault.CodeObjectQuotaExceeded) || f.writes != 0 {
			t.Errorf("the status was written %d times: %+v", f.writes, set.Status)
		}
	})
}

func TestANewSetWithoutASizeGetsOneMachineAfterFailedReconciles(t *testing.T) {
	for name, d := range map[string]time.Duration{"one call": 0, "the calls of 90 s": 90 * time.Second} {
		t.Run("a set whose size no client sets gets one Machine although "+name+" failed", func(t *testing.T) {
			set := testSet(0)
			set.Spec.Replicas = nil
			f := failsFor(t, d, set)
			set = f.after(t, 3*time.Minute)
			var machines v1alpha1.MachineList
			must(t, f.client.List(t.Context(), &machines))
			if len(machines.Items) != 1 || ptr.Deref(set.Spec.Replicas, 0) != 1 {
				t.Errorf("the set has %d Machines, spec.replicas %v, want 1", len(machines.Items), ptr.Deref(set.Spec.Replicas, 0))
			}
		})
	}
}

func TestANewSetWithoutASizeGetsOneMachineOnceItsInvalidSpecIsCorrected(t *testing.T) {
	set := testSet(0)
	set.Spec.Replicas = nil
	right := set.Spec.Template.Metadata.Labels
	set.Spec.Template.Metadata.Labels = map[string]string{"other": "labels"}
	f := failsFor(t, 0, set)
	if set = f.after(t, time.Minute); set.Status.ErrorReason == nil {
		t.Fatal("the set whose selector does not match its template is not refused")
	}
	set.Spec.Template.Metadata.Labels = right
	must(t, f.client.Update(t.Context(), set))
	if set = f.after(t, time.Minute); ptr.Deref(set.Spec.Replicas, 0) != 1 {
		t.Errorf("spec.replicas is %v, want 1", ptr.Deref(set.Spec.Replicas, 0))
	}
}
