package world

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// sizes holds the MachineSets, the MachineDeployments and their Machines in the API server.
type sizes struct {
	machines    []v1alpha1.Machine
	sets        []v1alpha1.MachineSet
	deployments []v1alpha1.MachineDeployment
}

func (w *World) sizes() (sizes, error) {
	var machines v1alpha1.MachineList
	var sets v1alpha1.MachineSetList
	var deployments v1alpha1.MachineDeploymentList
	err := errors.Join(w.Admin.List(w.Context, &machines), w.Admin.List(w.Context, &sets), w.Admin.List(w.Context, &deployments))
	return sizes{machines.Items, sets.Items, deployments.Items}, err
}

// setOf returns the set of a Machine, and its deployment. Each is nil if it does not exist or is being deleted.
func (s sizes) setOf(m *v1alpha1.Machine) (*v1alpha1.MachineSet, *v1alpha1.MachineDeployment) {
	set := controller(m, s.sets, func(o *v1alpha1.MachineSet) client.Object { return o })
	if set == nil {
		return nil, nil
	}
	d := controller(set, s.deployments, func(o *v1alpha1.MachineDeployment) client.Object { return o })
	return set, d
}

// controller returns the controlling owner of an object from the list all. It returns nil when the owner is not in the
// list or is being deleted.
func controller[T any](of metav1.Object, all []T, meta func(*T) client.Object) *T {
	ref := metav1.GetControllerOf(of)
	for i := range all {
		if o := meta(&all[i]); ref != nil && o.GetUID() == ref.UID && o.GetDeletionTimestamp() == nil {
			return &all[i]
		}
	}
	return nil
}

// living returns the names of the living Machines for which fits returns true. It ignores Machines without a set.
func (s sizes) living(fits func(*v1alpha1.Machine, *v1alpha1.MachineSet, *v1alpha1.MachineDeployment) bool) (names []string) {
	for i := range s.machines {
		m := &s.machines[i]
		set, d := s.setOf(m)
		if m.DeletionTimestamp == nil && set != nil && !named(m, set, d) && fits(m, set, d) {
			names = append(names, m.Name)
		}
	}
	return names
}

// named reports whether the set or the deployment names a Machine in its removals.
func named(m *v1alpha1.Machine, set *v1alpha1.MachineSet, d *v1alpha1.MachineDeployment) bool {
	return lists(set.Spec.Removals, m) || lists(set.Spec.RolloutRemovals, m) || d != nil && lists(d.Spec.Removals, m)
}

func lists(removals []v1alpha1.Removal, m *v1alpha1.Machine) bool {
	return slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool { return r.UID == m.UID })
}

// mayBeDeleted returns an error for the deletion of a Machine that must stay. That is a healthy Machine that its set
// needs or that must stay available in a rollout, or an unhealthy Machine while too many are being replaced.
func (w *World) mayBeDeleted(name string) error {
	var m v1alpha1.Machine
	if err := w.Admin.Get(w.Context, types.NamespacedName{Namespace: Namespace, Name: name}, &m); err != nil {
		return client.IgnoreNotFound(err)
	}
	s, err := w.sizes()
	if err != nil {
		return err
	}
	set, d := s.setOf(&m)
	switch {
	case set == nil:
		return nil
	case !w.healthy(&m):
		return w.mayBeReplaced(&m, set, s)
	case lists(set.Spec.Removals, &m) || d != nil && lists(d.Spec.Removals, &m):
		return nil
	case !lists(set.Spec.RolloutRemovals, &m):
		left := s.living(func(_ *v1alpha1.Machine, its *v1alpha1.MachineSet, _ *v1alpha1.MachineDeployment) bool {
			return its.UID == set.UID
		})
		if want := int(ptr.Deref(set.Spec.Replicas, 0)); len(left) <= want {
			return fmt.Errorf("healthy Machine %s is deleted although its set %s wants %d Machines and would have %v", name, set.Name, want, left)
		}
	}
	if d == nil {
		return nil
	}
	stay := s.living(func(other *v1alpha1.Machine, _ *v1alpha1.MachineSet, its *v1alpha1.MachineDeployment) bool {
		return other.UID != m.UID && its != nil && its.UID == d.UID && w.healthy(other)
	})
	if floor := int(ptr.Deref(d.Spec.Replicas, 0)) - unavailable(d); len(stay) < floor {
		return fmt.Errorf("healthy Machine %s is deleted although %[3]d Machines of deployment %[2]s must stay available and only %[4]v would", name, d.Name, floor, stay)
	}
	return nil
}

// RecordLate records that a create which a process began before a pause is carried out now, although another process leads. It may create
// a Machine too many, which the leader then deletes, or a join token that is not needed.
func (w *World) RecordLate() { w.late.Add(1) }

// checkSizes returns an error when a set has more living Machines than its size, or a deployment has more than its size
// plus its surge. After a late call it returns nil.
func (w *World) checkSizes() error {
	s, err := w.sizes()
	if err != nil || w.late.Load() > 0 {
		return err
	}
	ofSet, ofDeployment := map[types.UID]int{}, map[types.UID]int{}
	s.living(func(_ *v1alpha1.Machine, set *v1alpha1.MachineSet, d *v1alpha1.MachineDeployment) bool {
		ofSet[set.UID]++
		if d != nil {
			ofDeployment[d.UID]++
		}
		return true
	})
	for i := range s.sets {
		if set := &s.sets[i]; ofSet[set.UID] > int(ptr.Deref(set.Spec.Replicas, 1)) {
			return fmt.Errorf("set %s wants %d Machines and has %d", set.Name, ptr.Deref(set.Spec.Replicas, 1), ofSet[set.UID])
		}
	}
	for i := range s.deployments {
		if d := &s.deployments[i]; ofDeployment[d.UID] > int(ptr.Deref(d.Spec.Replicas, 1))+surge(d) {
			return fmt.Errorf("deployment %s wants %d Machines with a surge of %d and has %d", d.Name, ptr.Deref(d.Spec.Replicas, 1), surge(d), ofDeployment[d.UID])
		}
	}
	return nil
}

// surge and unavailable return the limits of a deployment's rollout. In these tests the limits must be numbers.
func surge(d *v1alpha1.MachineDeployment) int {
	return d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue()
}

func unavailable(d *v1alpha1.MachineDeployment) int {
	return d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()
}

// serversWithin returns an error when there are more servers than a deployment may have with its surge. It checks only worlds in
// which all servers belong to one deployment.
func (w *World) serversWithin() error {
	s, err := w.sizes()
	if err != nil || w.late.Load() > 0 || len(s.deployments) != 1 || s.deployments[0].DeletionTimestamp != nil {
		return err
	}
	d := &s.deployments[0]
	if most, n := int(ptr.Deref(d.Spec.Replicas, 1))+surge(d), len(w.Ours().Servers); n > most {
		return fmt.Errorf("deployment %s has %d servers, and may have %d", d.Name, n, most)
	}
	return nil
}
