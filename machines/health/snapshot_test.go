package health

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// filled returns stores with one group of three Machines, its objects and the Machines by name.
func filled(t *testing.T) (s *stores, d *v1alpha1.MachineDeployment, set *v1alpha1.MachineSet) {
	s = newStores()
	s.fill(t, 1, 3)
	return s, s.deployments.List()[0].(*v1alpha1.MachineDeployment), s.sets.List()[0].(*v1alpha1.MachineSet)
}

// seen returns a Machine of the snapshot.
func seen(t *testing.T, s *stores, name string) *verdict.Machine {
	t.Helper()
	r, _ := newPasses(t, s)
	w, _, err := r.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.Machines, func(m verdict.Machine) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &w.Machines[i]
}

func TestSnapshot(t *testing.T) {
	const name = "group-0-1-1"
	t.Run("a Machine has its Node and its deployment with the size", func(t *testing.T) {
		s, _, _ := filled(t)
		m := seen(t, s, name)
		if m.Node == nil || m.Node.Name != name || m.Group == nil || m.Group.Name != "group-0" || m.Group.Size != 3 || m.Aside || m.Outdated {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("a Machine of a set without a deployment has the set as its group (F-52)", func(t *testing.T) {
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
	t.Run("a Machine of another controller is not looked at", func(t *testing.T) {
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
		{"listed for removal by the deployment", func(d *v1alpha1.MachineDeployment, _ *v1alpha1.MachineSet) {
			d.Spec.Removals = []v1alpha1.Removal{{Name: name, UID: "uid-" + name}}
		}, true},
		{"listed by a rollout", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) {
			s.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: name, UID: "uid-" + name}}
		}, true},
		{"an older Machine of its name is listed", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) {
			s.Spec.Removals = []v1alpha1.Removal{{Name: name, UID: "another"}}
		}, false},
		{"the deployment is paused", func(d *v1alpha1.MachineDeployment, _ *v1alpha1.MachineSet) {
			d.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
		}, true},
		{"the set is being deleted", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) {
			s.DeletionTimestamp = ptr.To(metav1.Now())
		}, true},
		{"the deployment is gone", func(_ *v1alpha1.MachineDeployment, s *v1alpha1.MachineSet) { s.OwnerReferences[0].UID = "another" }, true},
	} {
		t.Run("left aside: "+tt.name, func(t *testing.T) {
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
		{"the set is of an older revision", func(*v1alpha1.MachineDeployment) {}, true},
		{"the set is of the present revision", func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationRevision] = "1" }, false},
		{"the rollout is paused", func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true }, false},
		{"people delete the Machines", func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
		}, false},
		{"the rollout has stopped at its deadline", func(d *v1alpha1.MachineDeployment) {
			d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, false},
	} {
		t.Run("outdated, and left to the rollout (CAPI-51): "+tt.name, func(t *testing.T) {
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

func TestWhatWakesAPass(t *testing.T) {
	s, _, _ := filled(t)
	r, _ := newPasses(t, s)
	later := metav1.NewTime(time.Now().Add(time.Minute))
	for _, tt := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = later }, false},
		{"an image", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		{"another taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, false},
		{"a condition that is not listed", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }, false},
		{"a listed condition", func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue }, true},
		{"Ready", func(n *corev1.Node) { n.Status.Conditions[5].Status = corev1.ConditionUnknown }, true},
		{"Ready, there and back", func(n *corev1.Node) { n.Status.Conditions[5].LastTransitionTime = later }, true},
		{"another zone", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "another" }, true},
		{"another Node of its name", func(n *corev1.Node) { n.UID = "another" }, true},
	} {
		t.Run("of a Node: "+tt.name, func(t *testing.T) {
			before := s.nodes.List()[0].(*corev1.Node)
			after := before.DeepCopy()
			tt.change(after)
			if got := r.nodeMatters(before, after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.Machine)
		want   bool
	}{
		{"an address", func(m *v1alpha1.Machine) { m.Status.Addresses = []corev1.NodeAddress{{Address: "10.0.0.1"}} }, false},
		{"a message", func(m *v1alpha1.Machine) { m.Status.Conditions[2].Message = "another" }, false},
		{"the reason of Ready", func(m *v1alpha1.Machine) { m.Status.Conditions[2].Reason = "NodeMissing" }, true},
		{"the reason of ServerReady", func(m *v1alpha1.Machine) { m.Status.Conditions[0].Reason = "ServerWontStart" }, true},
		{"an annotation", func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationReplace: "true"} }, true},
		{"its deletion", func(m *v1alpha1.Machine) { m.DeletionTimestamp = &later }, true},
		{"its Node", func(m *v1alpha1.Machine) { m.Status.NodeRef = nil }, true},
		{"its first start", func(m *v1alpha1.Machine) { m.Status.NodeMarks.Started = false }, true},
		{"its owner", func(m *v1alpha1.Machine) { m.OwnerReferences = nil }, true},
	} {
		t.Run("of a Machine: "+tt.name, func(t *testing.T) {
			before := s.machines.List()[0].(*v1alpha1.Machine)
			after := before.DeepCopy()
			tt.change(after)
			if got := machineMatters(before, after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
