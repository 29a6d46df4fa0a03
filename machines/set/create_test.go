package set

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// withClient answers create calls with what fails says; fails sees how many calls came before.
func withClient(t *testing.T, fails func(n int) error) (r *Reconciler, calls *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	calls = new(int)
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MachineSet{}).WithIndex(&v1alpha1.Machine{}, controllerIndex, ownership.ControllerOf).
		WithIndex(&v1alpha1.Machine{}, releasedIndex, releasedBy).
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

// with returns the controller with other options.
func with(r *Reconciler, change func(*Options)) *Reconciler {
	o := r.options
	change(&o)
	return assemble(o, r.client, r.client, r.events)
}

// through returns the controller with another client.
func through(r *Reconciler, c client.Client) *Reconciler { return assemble(r.options, c, c, r.events) }

func TestCreate(t *testing.T) {
	quota := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("machines").GroupResource(), "x", errors.New("no"))
	t.Run("MC-32 one call for each Machine", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		if err := r.machines.create(t.Context(), testSet(100), 100); err != nil || *calls != 100 {
			t.Errorf("%d calls, %v", *calls, err)
		}
	})
	t.Run("MCM-24 CAPI-23 the first batch with an error is the last", func(t *testing.T) {
		r, calls := withClient(t, func(n int) error {
			if n >= 3 {
				return quota
			}
			return nil
		})
		if err := r.machines.create(t.Context(), testSet(100), 100); err == nil || *calls != 7 {
			t.Errorf("%d calls, batches of 1, 2 and 4 make 7; error %v", *calls, err)
		}
		if n := r.expected.unmet(testSet(100)).created; n != 3 {
			t.Errorf("%d count as made, 3 were", n)
		}
	})
	t.Run("MC-34 a call with an unknown outcome counts until it is looked up", func(t *testing.T) {
		r, _ := withClient(t, func(int) error { return context.DeadlineExceeded })
		if err := r.machines.create(t.Context(), testSet(1), 1); err == nil {
			t.Error("no error")
		}
		if n := r.expected.unmet(testSet(1)).created; n != 1 {
			t.Errorf("%d count as made", n)
		}
		r.clock.(*clocktesting.FakePassiveClock).SetTime(start.Add(overdue))
		if _, err := r.expected.verify(t.Context(), testSet(1), nil); err != nil {
			t.Fatal(err)
		}
		if n := r.expected.unmet(testSet(1)).created; n != 0 {
			t.Errorf("%d count as made although there is none", n)
		}
	})
	t.Run("CAPI-20 what an earlier leader made is found before the first is made", func(t *testing.T) {
		r, _ := withClient(t, func(int) error { return nil })
		wanted := testSet(2)
		for _, o := range []client.Object{wanted, newMachine(wanted, "early")} {
			if err := r.client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		// The cache does not show the Machine yet.
		_, next, err := r.plan(t.Context(), wanted, nil)
		if err != nil || next.create != 1 {
			t.Errorf("%d Machines beside the one that is there, %v; one more is wanted", next.create, err)
		}
	})
}

func TestTheProjectOfNewMachines(t *testing.T) {
	t.Run("is looked up once for all, and recorded in the create that brings the finalizers (F-17)", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		asked := 0
		place := func(_ context.Context, namespace string, _ *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
			asked++
			return &runtime.RawExtension{Raw: []byte(`{"projectID":"of-` + namespace + `"}`)}
		}
		r = with(r, func(o *Options) { o.PlaceRecord = place })
		set := testSet(3)
		if err := r.machines.create(t.Context(), set, 3); err != nil || *calls != 3 || asked != 1 {
			t.Fatalf("%d calls, asked %d times, %v", *calls, asked, err)
		}
		var made v1alpha1.MachineList
		if err := r.client.List(t.Context(), &made); err != nil {
			t.Fatal(err)
		}
		for _, m := range made.Items {
			if got := string(m.Status.ProviderStatus.Raw); got != `{"projectID":"of-`+set.Namespace+`"}` || len(m.Finalizers) != 2 {
				t.Errorf("record %s, finalizers %v", got, m.Finalizers)
			}
		}
	})
}

func TestATemplateGivesNoGuardedValue(t *testing.T) {
	set := testSet(1)
	set.Spec.Template.Metadata.Annotations = map[string]string{"a": "b"}
	for _, key := range v1alpha1.GuardedAnnotations {
		set.Spec.Template.Metadata.Annotations[key] = "forged"
	}
	set.Spec.Template.Spec.ProviderID = new("openstack:///another-server")
	m := newMachine(set, "abcde")
	t.Run("no provider ID (F-5)", func(t *testing.T) {
		if m.Spec.ProviderID != nil {
			t.Errorf("the provider ID is %s", *m.Spec.ProviderID)
		}
	})
	t.Run("no annotation that asks for its replacement, which would have no end (CAPI-50)", func(t *testing.T) {
		set := testSet(1)
		set.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AnnotationReplace: "true", v1alpha1.AnnotationReplaceCAPI: ""}
		if m := newMachine(set, "abcde"); len(m.Annotations) != 0 {
			t.Errorf("the annotations are %v", m.Annotations)
		}
	})
	t.Run("no guarded annotation, and every other one (F-5)", func(t *testing.T) {
		if len(m.Annotations) != 1 || m.Annotations["a"] != "b" {
			t.Errorf("the annotations are %v", m.Annotations)
		}
	})
}
