package set

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testSet(replicas int32) *v1alpha1.MachineSet {
	return &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: "ns", UID: "set-uid", Generation: 4},
		Spec: v1alpha1.MachineSetSpec{
			Replicas: &replicas,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{
				Labels: map[string]string{"a": "b", "c": "d"}, Annotations: map[string]string{"note": "yes"}}},
		},
	}
}

// machine returns a Machine that has been Ready for the given time. A negative time means that it has no Node.
func machine(name string, readyFor time.Duration) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{"a": "b"}}}
	if readyFor >= 0 {
		since := metav1.NewTime(start.Add(-readyFor))
		m.Status.NodeRef = &corev1.ObjectReference{Name: name}
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, LastTransitionTime: &since}}
	}
	return m
}

func deleting(m *v1alpha1.Machine) *v1alpha1.Machine {
	at := metav1.NewTime(start)
	m.DeletionTimestamp = &at
	return m
}

// observedAtStart returns what the controller observes of a set and its Machines at the time start.
func observedAtStart(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine, x *expectations) observed {
	return observe(set, machines, set.Spec.Removals, x.unconfirmed(set), start)
}

// withClient returns a controller, and a counter of its create calls. fails receives the number of earlier create calls. If it
// returns an error, the create call fails with that error.
func withClient(t *testing.T, fails func(n int) error) (r *Reconciler, calls *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	calls = new(int)
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MachineSet{}).WithIndex(&v1alpha1.Machine{}, controllerIndex, ownership.ControllerOf).
		WithIndex(&v1alpha1.Machine{}, madeIndex, baseOf).WithIndex(&v1alpha1.MachineSet{}, controllerIndex, ownership.ControllerOf).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			mu.Lock()
			defer mu.Unlock()
			err := fails(*calls)
			*calls++
			if err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		}}).Build()
	suffixes := 0
	suffix := func() string {
		mu.Lock()
		defer mu.Unlock()
		suffixes++
		return fmt.Sprintf("s%04d", suffixes)
	}
	o := Options{Clock: clocktesting.NewFakePassiveClock(start), Suffix: suffix}
	return assemble(o, c, c, events.NewFakeRecorder(10)), calls
}

// with returns a copy of the controller with changed options.
func with(r *Reconciler, change func(*Options)) *Reconciler {
	o := r.options
	change(&o)
	return assemble(o, r.client, r.client, r.events)
}

// through returns a copy of the controller with another client.
func through(r *Reconciler, c client.Client) *Reconciler { return assemble(r.options, c, c, r.events) }
