package health

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// filled returns stores with one group of three Machines, and the group's deployment and set.
func filled(t *testing.T) (s *stores, d *v1alpha1.MachineDeployment, set *v1alpha1.MachineSet) {
	s = newStores()
	s.fill(t, 1, 3)
	return s, s.deployments.List()[0].(*v1alpha1.MachineDeployment), s.sets.List()[0].(*v1alpha1.MachineSet)
}

// seen returns the Machine with the given name from the controller's snapshot; nil when the snapshot does not contain the Machine.
func seen(t *testing.T, s *stores, name string) *verdict.Machine {
	t.Helper()
	r, _ := newPasses(t, s)
	w := &verdict.World{}
	if err := r.read(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.Machines, func(m verdict.Machine) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &w.Machines[i]
}

func TestWhatHealthChecksKnowAboutAMachine(t *testing.T) {
	const name = "group-0-1-1"
	t.Run("health checks know the Machine's Node, its deployment and the deployment's size when a deployment owns the Machine's set", func(t *testing.T) {
		s, _, _ := filled(t)
		m := seen(t, s, name)
		if m.Node == nil || m.Node.Name != name || m.Group == nil || m.Group.GetName() != "group-0" || m.Group.Size != 3 || m.Aside || m.Outdated {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("the group of a Machine whose set has no deployment is the set (F-52)", func(t *testing.T) {
		s, _, set := filled(t)
		set.OwnerReferences = nil
		if m := seen(t, s, name); m.Group == nil || m.Group.Kind != "MachineSet" {
			t.Errorf("got %+v", m.Group)
		}
	})
	t.Run("a Machine without a set has no group (MC-57)", func(t *testing.T) {
		s, _, _ := filled(t)
		m, _, _ := s.machines.GetByKey("default/" + name)
		m.(*v1alpha1.Machine).OwnerReferences = nil
		if m := seen(t, s, name); m.Group != nil {
			t.Errorf("got %+v", m.Group)
		}
	})
	t.Run("a Machine of another controller is left out of health checks", func(t *testing.T) {
		s, _, _ := filled(t)
		m, _, _ := s.machines.GetByKey("default/" + name)
		m.(*v1alpha1.Machine).Labels[v1alpha1.LabelController] = "another"
		if m := seen(t, s, name); m != nil {
			t.Errorf("got %+v", m)
		}
	})
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.MachineDeployment, *v1alpha1.MachineSet)
		aside  bool
	}{
		{"a Machine is ignored by health checks when its deployment lists it for removal", func(d *v1alpha1.MachineDeployment, _ *v1alpha1.MachineSet) {
			d.Spec.Removals = []v1alpha1.Removal{{Name: name, UID: "uid-" + name}}
		}, true},
		{"a Machine is ignored by health checks when a rollout lists it for removal", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) {
			s.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: name, UID: "uid-" + name}}
		}, true},
		{"a Machine is not ignored by health checks when an earlier Machine with the same name is listed for removal", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) {
			s.Spec.Removals = []v1alpha1.Removal{{Name: name, UID: "another"}}
		}, false},
		{"a Machine is ignored by health checks when its deployment is paused", func(d *v1alpha1.MachineDeployment, _ *v1alpha1.MachineSet) {
			d.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
		}, true},
		{"a Machine is ignored by health checks when its set is being deleted", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) {
			s.DeletionTimestamp = ptr.To(metav1.Now())
		}, true},
		{"a Machine is ignored by health checks when the deployment of its set is gone", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) { s.OwnerReferences[0].UID = "another" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, d, set := filled(t)
			tt.change(d, set)
			if got := seen(t, s, name).Aside; got != tt.aside {
				t.Errorf("got %v, want %v", got, tt.aside)
			}
		})
	}
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.MachineDeployment)
		want   bool
	}{
		{"a Machine of a set with an old revision counts as outdated during a rollout", func(*v1alpha1.MachineDeployment) {}, true},
		{"a Machine does not count as outdated when its set has the deployment's revision", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationRevision] = "1" }, false},
		{"a Machine of a set with an old revision does not count as outdated while the rollout is paused", func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, false},
		{"a Machine of a set with an old revision does not count as outdated when the strategy is OnDelete", func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
		}, false},
		{"a Machine of a set with an old revision does not count as outdated when the rollout has exceeded its progress deadline, so that repair goes on (report 103)", func(d *v1alpha1.MachineDeployment) {
			d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, false},
	} {
		t.Run(tt.name+" (CAPI-51)", func(t *testing.T) {
			s, d, set := filled(t)
			d.Annotations = map[string]string{v1alpha1.AnnotationRevision: "2"}
			set.Annotations = map[string]string{v1alpha1.AnnotationRevision: "1"}
			tt.change(d)
			if got := seen(t, s, name).Outdated; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
