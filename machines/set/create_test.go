package set

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestHowASetCreatesMachines(t *testing.T) {
	quota := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("machines").GroupResource(), "x", errors.New("no"))
	t.Run("a set creates each Machine with one API call (MC-32)", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		if err := r.create(t.Context(), testSet(100), 100); err != nil || *calls != 100 {
			t.Errorf("%d calls, error %v", *calls, err)
		}
	})
	t.Run("a set creates no further Machine after the first batch in which a create call fails (MCM-24, CAPI-23)", func(t *testing.T) {
		r, calls := withClient(t, func(n int) error {
			if n >= 3 {
				return quota
			}
			return nil
		})
		if err := r.create(t.Context(), testSet(100), 100); err == nil || *calls != 7 {
			t.Errorf("%d calls, want 7 in batches of 1, 2 and 4; error %v", *calls, err)
		}
		if n := r.expected.unconfirmed(testSet(100)).created; n != 3 {
			t.Errorf("%d Machines are expected, want 3", n)
		}
	})
	t.Run("a set in a namespace that is being deleted makes one create call, and reports that it was refused (F-69)", func(t *testing.T) {
		ending := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("machines").GroupResource(), "x", errors.New("the namespace is being terminated"))
		ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		r, calls := withClient(t, func(int) error { return ending })
		if err := r.create(t.Context(), testSet(100), 100); err == nil || *calls != 1 {
			t.Errorf("%d calls, error %v; want 1 call and the refusal", *calls, err)
		}
	})
	t.Run("a Machine whose create call has an unknown outcome counts as created until a lookup does not find it (MC-34)", func(t *testing.T) {
		r, _ := withClient(t, func(int) error { return context.DeadlineExceeded })
		if err := r.create(t.Context(), testSet(1), 1); err == nil {
			t.Error("create() returned no error")
		}
		if n := r.expected.unconfirmed(testSet(1)).created; n != 1 {
			t.Errorf("%d Machines are expected", n)
		}
		r.clock.(*clocktesting.FakePassiveClock).SetTime(start.Add(overdue))
		if _, err := r.expected.verify(t.Context(), testSet(1), nil); err != nil {
			t.Fatal(err)
		}
		if n := r.expected.unconfirmed(testSet(1)).created; n != 0 {
			t.Errorf("%d Machines are expected after the lookup, want 0", n)
		}
	})
	t.Run("a new leader whose cache lacks a Machine of the previous leader counts that Machine before it creates others (CAPI-20)", func(t *testing.T) {
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
			t.Errorf("plan() creates %d Machines, error %v; want one, beside the existing Machine", next.create, err)
		}
	})
}

func TestNewMachinesRecordTheProjectOfTheirServers(t *testing.T) {
	t.Run("the project is looked up once for all new Machines, and the create call of each Machine records it (F-17)", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		asked := 0
		place := func(_ context.Context, namespace string, _ *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
			asked++
			return &runtime.RawExtension{Raw: []byte(`{"projectID":"of-` + namespace + `"}`)}
		}
		r = with(r, func(o *Options) { o.PlaceRecord = place })
		set := testSet(3)
		if err := r.create(t.Context(), set, 3); err != nil || *calls != 3 || asked != 1 {
			t.Fatalf("%d calls, PlaceRecord called %d times, error %v", *calls, asked, err)
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

func TestWhatANewMachineTakesFromItsTemplate(t *testing.T) {
	set := testSet(1)
	set.Spec.Template.Metadata.Annotations = map[string]string{"a": "b"}
	for _, key := range v1alpha1.GuardedAnnotations {
		set.Spec.Template.Metadata.Annotations[key] = "forged"
	}
	set.Spec.Template.Spec.ProviderID = new("openstack:///another-server")
	m := newMachine(set, "abcde")
	t.Run("the Machine has no provider ID although the template has one (F-5)", func(t *testing.T) {
		if m.Spec.ProviderID != nil {
			t.Errorf("the provider ID is %s", *m.Spec.ProviderID)
		}
	})
	t.Run("the Machine has a name of its own for its server and Node although the template has one (F-117)", func(t *testing.T) {
		set := testSet(1)
		set.Spec.Template.Spec.Metadata.Name = "the-same-for-all"
		if m := newMachine(set, "abcde"); m.Spec.Metadata.Name != m.Name {
			t.Errorf("the name of the server is %s", m.Spec.Metadata.Name)
		}
	})
	t.Run("the Machine has no annotation that requests its replacement, because each replacement would be replaced again (CAPI-50)", func(t *testing.T) {
		set := testSet(1)
		set.Spec.Template.Metadata.Annotations = map[string]string{v1alpha1.AnnotationReplace: "true", v1alpha1.AnnotationReplaceCAPI: ""}
		if m := newMachine(set, "abcde"); len(m.Annotations) != 0 {
			t.Errorf("the annotations are %v", m.Annotations)
		}
	})
	t.Run("the Machine has the template's annotations except those that authors of Machines may not set (F-5)", func(t *testing.T) {
		if len(m.Annotations) != 1 || m.Annotations["a"] != "b" {
			t.Errorf("the annotations are %v", m.Annotations)
		}
	})
}

func TestANewMachineHasTheSetAsOwnerAndTheLabelsOfTheTemplate_MC32_MC39(t *testing.T) {
	set := testSet(1)
	m := newMachine(set, "abcde")
	if m.Name != "set-abcde" || m.Spec.Metadata.Name != m.Name || m.Labels["c"] != "d" || m.Annotations["note"] != "yes" {
		t.Errorf("newMachine(): name %s, node %s, labels %v, annotations %v", m.Name, m.Spec.Metadata.Name, m.Labels, m.Annotations)
	}
	if !slices.Equal(m.Finalizers, []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}) {
		t.Errorf("newMachine(): finalizers %v", m.Finalizers)
	}
	if !metav1.IsControlledBy(m, set) || m.OwnerReferences[0].BlockOwnerDeletion == nil {
		t.Errorf("newMachine(): owners %v", m.OwnerReferences)
	}
}
