package set

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestTheStatusOfABareSetIsWrittenAtMostEveryTwoSecondsExceptForErrors(t *testing.T) {
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
	reason, message := string(fault.CodeCreateError), "no"
	failed.ErrorReason, failed.ErrorMessage = &reason, &message
	for _, step := range []struct {
		name     string
		after    time.Duration
		status   v1alpha1.MachineSetStatus
		written  int
		inAWhile time.Duration
	}{
		{"the first change is written at once", 0, replicas(1), 1, 0},
		{"the second change is written after the rest of the interval", 500 * time.Millisecond, replicas(2), 1, 1500 * time.Millisecond},
		{"the third change is delayed until the same time as the second change", 500 * time.Millisecond, replicas(3), 1, time.Second},
		{"an error is written at once", 0, failed, 2, 0},
		{"a delayed change is written when it is due", time.Second, replicas(3), 3, 0},
		{"a status that equals the stored status is not written again", 10 * time.Second, replicas(0), 3, 0},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		left, err := r.statuses.writeWhenDue(t.Context(), testSet(1), step.status)
		if err != nil || writes != step.written || left != step.inAWhile {
			t.Errorf("%s: %d writes, due in %s, error %v", step.name, writes, left, err)
		}
	}
}

func TestHowOftenTheStatusOfADeploymentsSetIsWritten(t *testing.T) {
	t.Run("changed numbers of Machines are written at most every 25 s, but an error or the removal of the last Machine at once (F-57)", func(t *testing.T) {
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
			if _, err := r.statuses.writeWhenDue(t.Context(), set, v1alpha1.MachineSetStatus{Replicas: int32(i + 1)}); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(clock.Now().Add(5 * time.Second))
		}
		if writes != 2 {
			t.Errorf("%d writes in 45 s, want 2", writes)
		}
		failed := v1alpha1.MachineSetStatus{ErrorReason: ptr.To(string(fault.CodeCreateError)), ErrorMessage: ptr.To("no")}
		if left, err := r.statuses.writeWhenDue(t.Context(), set, failed); err != nil || left != 0 || writes != 3 {
			t.Errorf("%d writes, due in %v, error %v; want a write at once", writes, left, err)
		}
		set.Status.ErrorReason, set.Status.Replicas, set.Spec.Replicas = failed.ErrorReason, 1, ptr.To(int32(0))
		failed.Replicas = 0
		if left, err := r.statuses.writeWhenDue(t.Context(), set, failed); err != nil || left != 0 || writes != 4 {
			t.Errorf("%d writes, due in %v, error %v; want a write at once", writes, left, err)
		}
	})
}

func TestAnErrorThatEachCreateAttemptRepeatsIsWrittenOnlyOnceIntoTheSetsStatus(t *testing.T) {
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
		err := r.create(t.Context(), set, 1)
		st := v1alpha1.MachineSetStatus{ErrorReason: ptr.To(string(fault.CodeCreateError)), ErrorMessage: bounded(err.Error())}
		if _, err := r.statuses.writeWhenDue(t.Context(), set, st); err != nil {
			t.Fatal(err)
		}
		// The set now has the error in its stored status, as if the watch had delivered the written status.
		set.Status.ErrorReason, set.Status.ErrorMessage = st.ErrorReason, st.ErrorMessage
	}
	if writes != 1 || made != looks {
		t.Errorf("%d writes for %d attempts, want 1", writes, made)
	}
}

func TestTheStatusOfASetCountsLivingMachines(t *testing.T) {
	set := testSet(3)
	set.Spec.MinReadySeconds = 60
	set.Spec.Removals = []v1alpha1.Removal{{Name: "listed", UID: "listed"}}
	labelled := machine("old", time.Hour)
	labelled.Labels["c"] = "d"
	all := []*v1alpha1.Machine{
		labelled, machine("young", 20*time.Second), machine("none", -1), deleting(machine("dying", time.Hour)), machine("listed", time.Hour),
	}
	seen := observe(set, all, set.Spec.Removals, unconfirmed{}, start)
	st := seen.status(labels.SelectorFromSet(labels.Set{"a": "b"}))
	want := v1alpha1.MachineSetStatus{Replicas: 3, FullyLabeledReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 1, ObservedGeneration: 4, Selector: "a=b"}
	if fmt.Sprint(st) != fmt.Sprint(want) {
		t.Errorf("status() = %+v, want %+v", st, want)
	}
	if seen.availableIn != 40*time.Second {
		t.Errorf("availableIn = %s, want 40s", seen.availableIn)
	}
}

func TestTheConditionsOfASetFollowAvailableMachinesAndErrors_MC27(t *testing.T) {
	set := testSet(3)
	reason, message := "CreateError", "no"
	healthy := conditions(set, v1alpha1.MachineSetStatus{AvailableReplicas: 3}, decision{wanted: 3}, start)
	set.Status.Conditions = healthy
	later := start.Add(time.Hour)
	failed := conditions(set, v1alpha1.MachineSetStatus{AvailableReplicas: 3, ErrorReason: &reason, ErrorMessage: &message}, decision{wanted: 3}, later)
	if healthy[0].Status != "True" || healthy[1].Status != "False" || failed[1].Status != "True" || failed[1].Message != "no" {
		t.Errorf("conditions() = %+v, then %+v", healthy, failed)
	}
	if !failed[0].LastTransitionTime.Time.Equal(start) || !failed[1].LastTransitionTime.Time.Equal(later) || failed[0].ObservedGeneration != 4 {
		t.Errorf("transition times %+v", failed)
	}
	if few := conditions(set, v1alpha1.MachineSetStatus{AvailableReplicas: 2}, decision{wanted: 3}, start); few[0].Status != "False" {
		t.Errorf("conditions() with 2 of 3 available = %+v", few[0])
	}
}

func TestASetWithoutADeploymentNamesItsFieldsWithoutEffect(t *testing.T) {
	set := testSet(1)
	set.OwnerReferences = nil
	if err := json.Unmarshal([]byte(`{"deletePolicies": "Oldest", "template": {"spec": {"roles": ["Node"]}}}`), &set.Spec); err != nil {
		t.Fatal(err)
	}
	t.Run("in the condition Warnings (F-115)", func(t *testing.T) {
		c := meta.FindStatusCondition(conditions(set, v1alpha1.MachineSetStatus{}, decision{wanted: 1}, start), v1alpha1.ConditionWarnings)
		const want = "spec.deletePolicies: unknown field, which has no effect; remove it; spec.template.spec.roles: has no effect any more; it may be removed"
		if c == nil || c.Status != metav1.ConditionTrue || c.Message != want {
			t.Errorf("the condition is %+v, want the message %q", c, want)
		}
	})
	t.Run("not when it has a deployment, which names them (F-115)", func(t *testing.T) {
		set.OwnerReferences = []metav1.OwnerReference{{Kind: v1alpha1.MachineDeploymentKind.Kind, Controller: ptr.To(true)}}
		if all := conditions(set, v1alpha1.MachineSetStatus{}, decision{wanted: 1}, start); len(all) != 2 {
			t.Errorf("the conditions are %+v", all)
		}
	})
}

func TestTheStatusCountsMachinesThatTheCacheDoesNotShowYet(t *testing.T) {
	t.Run("status.replicas is the number of living Machines and of Machines that the set has just created (F-75)", func(t *testing.T) {
		s := observe(testSet(3), []*v1alpha1.Machine{machine("a", 1)}, nil, unconfirmed{created: 2}, start)
		if got := s.status(labels.Everything()).Replicas; got != 3 {
			t.Errorf("status.replicas is %d, want 3", got)
		}
	})
}

func TestTheErrorOfASetWhoseMachinesTheAPIServerDoesNotCreate(t *testing.T) {
	machines := v1alpha1.GroupVersion.WithResource("machines").GroupResource()
	for name, tt := range map[string]struct {
		err  error
		want fault.Code
	}{
		"a create that an object quota refuses is ObjectQuotaExceeded (F-148)": {
			apierrors.NewForbidden(machines, "m", errors.New("exceeded quota: machines, requested: count/machines.cluster.k8s.io=1, used: 5, limited: 5")), fault.CodeObjectQuotaExceeded,
		},
		"a create that a webhook refuses is MachineRefused (F-148)": {
			apierrors.NewBadRequest(`admission webhook "policy.example.com" denied the request: no owner label`), fault.CodeMachineRefused,
		},
		"a create that fails because nobody answers for a webhook is CreateError (F-148)": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": connection refused`)), fault.CodeCreateError,
		},
		"a create that the API server refuses for now is CreateError": {apierrors.NewTooManyRequests("later", 1), fault.CodeCreateError},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := withClient(t, func(n int) error {
				if n == 0 {
					// The first call creates the set itself.
					return nil
				}
				return tt.err
			})
			set := testSet(1)
			set.Finalizers = []string{metav1.FinalizerDeleteDependents}
			if err := r.client.Create(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			key := client.ObjectKeyFromObject(set)
			// The name of the Machine is left out, because each attempt has another one.
			refusal := strings.ReplaceAll(tt.err.Error(), ` "m"`, "")
			// Two reconciles: the second one follows from the status write of the first one, before a live read has shown the outcome.
			for range 2 {
				// Ignore the error: the controller's queue tries again because of it.
				_, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
				if err := r.client.Get(t.Context(), key, set); err != nil {
					t.Fatal(err)
				}
				if got := ptr.Deref(set.Status.ErrorReason, ""); got != string(tt.want) || !strings.Contains(ptr.Deref(set.Status.ErrorMessage, ""), refusal) {
					t.Errorf("the error is %s: %s", got, ptr.Deref(set.Status.ErrorMessage, ""))
				}
			}
			recorded := r.events.(*events.FakeRecorder).Events
			if len(recorded) != 1 {
				t.Fatalf("%d Events, want one", len(recorded))
			}
			if text := <-recorded; !strings.Contains(text, string(tt.want)) || !strings.Contains(text, refusal) {
				t.Errorf("the Event is %s", text)
			}
		})
	}
}
