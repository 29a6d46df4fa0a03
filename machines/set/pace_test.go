package set

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
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
	r := reconciler(clock)
	r.client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	}).Build()
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
		left, err := r.showStatus(t.Context(), testSet(1), step.status)
		if err != nil || writes != step.written || left != step.inAWhile {
			t.Errorf("%s: %d writes, %s left, %v", step.name, writes, left, err)
		}
	}
}

func TestASetThatIsNoMoreHasNoPace(t *testing.T) {
	p := newPace()
	key := client.ObjectKeyFromObject(testSet(1))
	p.left(key, start)
	p.forget(key)
	if left := p.left(key, start); left != 0 {
		t.Errorf("%s left", left)
	}
}
