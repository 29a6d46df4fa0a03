package set

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheNumbersOfASetAreWrittenNowAndThen(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	clock := clocktesting.NewFakePassiveClock(start)
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	}).Build()
	r := assemble(Options{Clock: clock}, c, c, events.NewFakeRecorder(10))
	replicas := func(n int32) v1alpha1.MachineSetStatus { return v1alpha1.MachineSetStatus{Replicas: n} }
	failed := replicas(4)
	reason, message := reasonCreate, "no"
	failed.ErrorReason, failed.ErrorMessage = &reason, &message
	for _, step := range []struct {
		name     string
		after    time.Duration
		status   v1alpha1.MachineSetStatus
		written  int
		inAWhile time.Duration
	}{
		{"the first is written at once", 0, replicas(1), 1, 0},
		{"the next waits for the rest of the pace", 500 * time.Millisecond, replicas(2), 1, 1500 * time.Millisecond},
		{"and so does the one after", 500 * time.Millisecond, replicas(3), 1, time.Second},
		{"an error is written at once", 0, failed, 2, 0},
		{"what has come to be is written when it is time", time.Second, replicas(3), 3, 0},
		{"what is stored already is no write", 10 * time.Second, replicas(0), 3, 0},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		left, err := r.statuses.show(t.Context(), testSet(1), step.status)
		if err != nil || writes != step.written || left != step.inAWhile {
			t.Errorf("%s: %d writes, %s left, %v", step.name, writes, left, err)
		}
	}
}

func TestTheNumbersOfASetOfADeploymentAreWrittenSeldom(t *testing.T) {
	t.Run("at most every 25 s after the first, since its deployment shows them; an error, and that it is empty, at once (F-57)", func(t *testing.T) {
		r, _ := withClient(t, func(int) error { return nil })
		clock := clocktesting.NewFakePassiveClock(start)
		r = with(r, func(o *Options) { o.Clock = clock })
		writes := 0
		r = through(r, interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
			SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
				writes++
				return nil
			},
		}))
		set := testSet(1)
		set.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "d", UID: "d", Controller: ptr.To(true)}}
		for i := range 10 {
			if _, err := r.statuses.show(t.Context(), set, v1alpha1.MachineSetStatus{Replicas: int32(i + 1)}); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(clock.Now().Add(5 * time.Second))
		}
		if writes != 2 {
			t.Errorf("%d writes in 45 s, want 2", writes)
		}
		failed := v1alpha1.MachineSetStatus{ErrorReason: ptr.To(reasonCreate), ErrorMessage: ptr.To("no")}
		if left, err := r.statuses.show(t.Context(), set, failed); err != nil || left != 0 || writes != 3 {
			t.Errorf("%d writes, %v left, error %v; want the error at once", writes, left, err)
		}
		set.Status.ErrorReason, set.Status.Replicas, set.Spec.Replicas = failed.ErrorReason, 1, ptr.To(int32(0))
		failed.Replicas = 0
		if left, err := r.statuses.show(t.Context(), set, failed); err != nil || left != 0 || writes != 4 {
			t.Errorf("%d writes, %v left, error %v; want at once that the set is empty", writes, left, err)
		}
	})
}

func TestAnErrorThatStaysIsNotWrittenWithEachName(t *testing.T) {
	r, _ := withClient(t, func(int) error { return nil })
	writes, made := 0, 0
	r = through(r, interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			made++
			return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("machines").GroupResource(), o.GetName(), errors.New("exceeded quota"))
		},
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	}))
	set := testSet(1)
	const looks = 10
	for range looks {
		err := r.machines.create(t.Context(), set, 1)
		st := v1alpha1.MachineSetStatus{ErrorReason: ptr.To(reasonCreate), ErrorMessage: bounded(err.Error())}
		if _, err := r.statuses.show(t.Context(), set, st); err != nil {
			t.Fatal(err)
		}
		// What was written comes back, and has the set looked at again at once.
		set.Status.ErrorReason, set.Status.ErrorMessage = st.ErrorReason, st.ErrorMessage
	}
	if writes != 1 || made != looks {
		t.Errorf("%d writes for %d attempts, one is enough", writes, made)
	}
}
