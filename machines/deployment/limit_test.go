package deployment

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// limited returns a reconciler that allows at most the given number of replacements, and two deployments whose four Machines
// are of a former template. leaving is how many Machines of the first deployment are being deleted.
func limited(t *testing.T, most, leaving int) (*Reconciler, []rollout.Snapshot) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	var snapshots []rollout.Snapshot
	for i, name := range []string{"one", "two"} {
		d, old := rollingGroup(name)
		objects = append(objects, d, old)
		s := rollout.Snapshot{Deployment: d, Now: time.Unix(0, 0), Sets: []rollout.SetState{{Set: old}}}
		for j := range 4 {
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint(name, j), Namespace: "ns", UID: types.UID(fmt.Sprint(name, j)), Finalizers: []string{v1alpha1.FinalizerServer},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(old, v1alpha1.MachineSetKind)},
			}}
			m.Spec.ProviderID = new("openstack:///" + m.Name)
			if i == 0 && j < leaving {
				m.DeletionTimestamp = new(metav1.NewTime(time.Unix(0, 0)))
			}
			s.Sets[0].Machines = append(s.Sets[0].Machines, m)
			objects = append(objects, m)
		}
		snapshots = append(snapshots, s)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.MachineDeployment{}).
		WithIndex(&v1alpha1.Machine{}, controllerIndex, ownership.ControllerOf).WithIndex(&v1alpha1.MachineSet{}, controllerIndex, ownership.ControllerOf).
		WithIndex(&v1alpha1.MachineSet{}, madeIndex, baseOf).Build()
	return assemble(Options{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), MaxReplacing: most},
		c, c, c, events.NewFakeRecorder(10)), snapshots
}

// rollingGroup returns a deployment of 4 Machines whose template has just changed, and the set of its former template.
func rollingGroup(name string) (*v1alpha1.MachineDeployment, *v1alpha1.MachineSet) {
	labels := map[string]string{"group": name}
	d := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: new(int32(4)), Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: labels}},
		},
	}
	old := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-old", Namespace: "ns", UID: types.UID(name + "-old"),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}},
		Spec: v1alpha1.MachineSetSpec{Replicas: new(int32(4)), Template: *d.Spec.Template.DeepCopy()},
	}
	current := old.DeepCopy()
	current.Spec.Template.Spec.Versions.Kubelet = "former"
	return d, current
}

func TestTheReplacementLimitCoversAllDeployments(t *testing.T) {
	plan := func(t *testing.T, r *Reconciler, s rollout.Snapshot) rollout.Plan {
		t.Helper()
		p, invalid, err := r.limit.plan(t.Context(), s)
		if invalid != nil || err != nil {
			t.Fatal(invalid, err)
		}
		return p
	}
	t.Run("with a limit of 1, the second deployment replaces no Machine until the rollout of the first has ended", func(t *testing.T) {
		r, s := limited(t, 1, 0)
		if p := plan(t, r, s[0]); p.Replacing != 1 || *p.Create.Spec.Replicas != 1 {
			t.Errorf("the first deployment replaces %d: %v", p.Replacing, p.Steps)
		}
		if p := plan(t, r, s[1]); p.Replacing != 0 || !p.Limited || *p.Create.Spec.Replicas != 0 {
			t.Errorf("the second deployment replaces %d: %v", p.Replacing, p.Steps)
		}
		r.limit.forget(client.ObjectKeyFromObject(s[0].Deployment))
		if p := plan(t, r, s[1]); p.Replacing != 1 || p.Limited {
			t.Errorf("the second deployment replaces %d: %v", p.Replacing, p.Steps)
		}
	})
	t.Run("replacements that began under the previous leader count towards the limit", func(t *testing.T) {
		r, s := limited(t, 1, 0)
		first := plan(t, r, s[0]).Create
		if err := r.client.Create(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		r.limit = newReplacementLimit(1, r.sets)
		if p := plan(t, r, s[1]); p.Replacing != 0 || !p.Limited {
			t.Errorf("the second deployment replaces %d: %v", p.Replacing, p.Steps)
		}
	})
	t.Run("replacements of a deployment whose selector has become invalid count towards the limit of a new leader", func(t *testing.T) {
		r, s := limited(t, 1, 0)
		first := plan(t, r, s[0]).Create
		invalid := s[0].Deployment.DeepCopy()
		invalid.Spec.Selector.MatchLabels = map[string]string{"group": "another"}
		if err := errors.Join(r.client.Create(t.Context(), first), r.client.Update(t.Context(), invalid)); err != nil {
			t.Fatal(err)
		}
		r.limit = newReplacementLimit(1, r.sets)
		if p := plan(t, r, s[1]); p.Replacing != 0 || !p.Limited {
			t.Errorf("the second deployment replaces %d: %v", p.Replacing, p.Steps)
		}
	})
	t.Run("without a limit, all deployments replace Machines at the same time", func(t *testing.T) {
		r, s := limited(t, 0, 0)
		for i := range s {
			if p := plan(t, r, s[i]); p.Replacing != 1 || p.Limited {
				t.Errorf("a deployment replaces %d: %v", p.Replacing, p.Steps)
			}
		}
	})
	t.Run("replaced Machines that are still being deleted count towards the limit", func(t *testing.T) {
		r, s := limited(t, 2, 1)
		plan(t, r, s[0])
		if got := r.limit.inUse[client.ObjectKeyFromObject(s[0].Deployment)]; got != 1 {
			t.Errorf("the first deployment replaces %d", got)
		}
	})
}
