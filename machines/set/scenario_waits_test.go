package set

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/safety/reach"
)

// The rule that this file holds: within two minutes a set that lacks Machines shows what it waits for and what to do, in the message of
// ReplicaFailure, or of Available when nothing has failed. The transition time of the condition is since when.

// answer returns the error of an API server that refuses to create a Machine of the given name.
func answer(code int32, reason metav1.StatusReason, text string) func(o client.Object, n int) error {
	return func(o client.Object, _ int) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
			Message: fmt.Sprintf("machines.cluster.k8s.io %q is refused: %s", o.GetName(), text)}}
	}
}

// outage makes the controller watch API servers that have not answered yet.
func outage(o *Options) { o.Reach = reach.New(reach.Options{Clock: o.Clock.(*clocktesting.FakeClock)}) }

func TestASetThatLacksMachinesShowsWhyWithinTwoMinutes(t *testing.T) {
	for name, tt := range map[string]struct {
		// set changes the set. options change those of the controller. create and patch return the error of such a call.
		set           func(*v1alpha1.MachineSet)
		options       func(*Options)
		create, patch func(o client.Object, n int) error
		// unknown is true when it is not known whether a failed create was carried out.
		unknown bool
		// kind is the condition, and what and do are parts of its message.
		kind, what, do string
	}{
		"a ResourceQuota has no room":               {create: answer(403, metav1.StatusReasonForbidden, "exceeded quota: q"), kind: v1alpha1.ConditionReplicaFailure, what: "exceeded quota: q", do: "raise the quota"},
		"an admission webhook refuses its Machines": {create: answer(403, metav1.StatusReasonForbidden, `admission webhook "w.example.com" denied it`), kind: v1alpha1.ConditionReplicaFailure, what: "w.example.com", do: "change what the API server or the admission webhook refuses"},
		"the API server finds its Machines invalid": {create: answer(422, metav1.StatusReasonInvalid, "spec is wrong"), kind: v1alpha1.ConditionReplicaFailure, what: "spec is wrong", do: "change what"},
		"the API server is overloaded":              {create: answer(429, metav1.StatusReasonTooManyRequests, "too many requests"), kind: v1alpha1.ConditionReplicaFailure, what: "too many requests", do: "drover tries again automatically"},
		"an admission webhook does not answer":      {unknown: true, create: answer(500, metav1.StatusReasonInternalError, `failed calling webhook "w.example.com"`), kind: v1alpha1.ConditionReplicaFailure, what: "w.example.com", do: "drover tries again automatically"},
		"the connection to the API server breaks": {unknown: true, create: func(_ client.Object, n int) error {
			return fmt.Errorf("read tcp 10.0.0.5:%d->10.0.0.9:443: connection reset", 40000+n)
		}, kind: v1alpha1.ConditionReplicaFailure, what: "connection reset", do: "drover tries again automatically"},
		"drover may not write the set": {set: func(s *v1alpha1.MachineSet) { s.Finalizers = nil }, patch: answer(403, metav1.StatusReasonForbidden, "a right is missing"), kind: v1alpha1.ConditionReplicaFailure, what: "a right is missing", do: "drover tries again automatically"},
		"the connection breaks when the set is written": {set: func(s *v1alpha1.MachineSet) { s.Finalizers = nil }, patch: func(_ client.Object, n int) error {
			return fmt.Errorf("write tcp 10.0.0.5:%d->10.0.0.9:443: broken pipe", 40000+n)
		}, kind: v1alpha1.ConditionReplicaFailure, what: "broken pipe", do: "drover tries again automatically"},
		"the group is frozen":                        {set: crowded, kind: v1alpha1.ConditionAvailable, what: "frozen", do: "see the condition"},
		"it is an old set of an OnDelete deployment": {set: func(s *v1alpha1.MachineSet) { s.Annotations = map[string]string{v1alpha1.AnnotationNoCreate: "true"} }, kind: v1alpha1.ConditionAvailable, what: "old set", do: "no action is needed"},
		"no API server has answered":                 {options: outage, kind: v1alpha1.ConditionAvailable, what: "has not been reached", do: "before it answers"},
		"its selector does not match its template":   {set: func(s *v1alpha1.MachineSet) { s.Spec.Selector.MatchLabels["x"] = "y" }, kind: v1alpha1.ConditionReplicaFailure, what: "does not match", do: "add the selector's labels"},
		"its provider spec is too large":             {set: tooLarge, kind: v1alpha1.ConditionReplicaFailure, what: "spec.template.spec.providerSpec.value", do: "move long values"},
		"its Machines have no Node yet":              {kind: v1alpha1.ConditionAvailable, what: "0 of 2 Machines are available", do: "the conditions of the others show"},
	} {
		t.Run("because "+name+" (F-114)", func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			r, _ := withClient(t, func(int) error { return nil })
			r = with(r, func(o *Options) {
				o.Clock = clock
				if tt.options != nil {
					tt.options(o)
				}
			})
			set := testSet(2)
			set.Finalizers = []string{metav1.FinalizerDeleteDependents}
			if tt.set != nil {
				tt.set(set)
			}
			must(t, r.client.Create(t.Context(), set))
			for i := range 6 { // Only a set of that name has lost them.
				must(t, r.client.Create(t.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: fmt.Sprintf("crowded-bcdf%d", 2+i)}}))
			}
			calls, writes := 0, 0
			r = through(r, interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if calls++; tt.create != nil {
						return tt.create(o, calls)
					}
					return c.Create(ctx, o, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if calls++; tt.patch != nil {
						return tt.patch(o, calls)
					}
					return c.Patch(ctx, o, p, opts...)
				},
				SubResourceApply: func(ctx context.Context, c client.Client, name string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
					writes++
					return c.SubResource(name).Apply(ctx, o, opts...)
				},
			}))
			key := client.ObjectKeyFromObject(set)
			lives(t, r, clock, ctrl.Request{NamespacedName: key}, 2*time.Minute)
			must(t, r.client.Get(t.Context(), key, set))
			c := meta.FindStatusCondition(set.Status.Conditions, tt.kind)
			if c == nil || !strings.Contains(c.Message, tt.what) || !strings.Contains(c.Message, tt.do) || c.LastTransitionTime.Time.Before(start) {
				t.Errorf("the set shows %+v, want a message with %q and %q", set.Status.Conditions, tt.what, tt.do)
			}
			// While it is not known whether a create was carried out, the number of Machines in the status changes with each attempt.
			if writes > 3 && !tt.unknown {
				t.Errorf("the status was written %d times in two minutes", writes)
			}
		})
	}
}

// tooLarge puts a provider spec into a set that is larger than the API server stores.
func tooLarge(s *v1alpha1.MachineSet) {
	s.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}
}

// crowded makes a set one that has lost more Machines than it may have.
func crowded(s *v1alpha1.MachineSet) { s.Name = "crowded" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lives reconciles a set for the given time as the work queue does.
func lives(t *testing.T, r *Reconciler, clock *clocktesting.FakeClock, request ctrl.Request, d time.Duration) {
	t.Helper()
	retries := ownership.Retries()
	for end := clock.Now().Add(d); clock.Now().Before(end); {
		result, err := r.Reconcile(t.Context(), request)
		wait := result.RequeueAfter
		switch {
		case errors.Is(err, context.Canceled):
			t.Fatal(err)
		case err != nil:
			wait = retries.When(request)
		default:
			retries.Forget(request)
		}
		if wait == 0 {
			wait = 30 * time.Second
		}
		clock.Step(wait)
	}
}
