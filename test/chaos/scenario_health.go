package chaos

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// twoUnhealthy creates a set of three and makes two Machines unhealthy. It stops the kubelet of one, and when the Ready
// condition of its Node is Unknown, it sets a kernel deadlock condition on the Node of the other. After both are replaced,
// one after the other, it deletes the set.
func (h *harness) twoUnhealthy() error {
	m, err := h.NewMachine()
	if err != nil {
		return err
	}
	set, err := h.setOf(3, m)
	if err != nil {
		return err
	}
	if err := h.running(3); err != nil {
		return err
	}
	machines, err := h.byName()
	if err != nil {
		return err
	}
	h.StopKubelet(serverOf(&machines[1]))
	if err := h.until("the Ready condition of the Node without kubelet reports is Unknown", func() (bool, error) { return h.isUnknown(machines[1].Name) }); err != nil {
		return err
	}
	if err := h.SetDeadlock(serverOf(&machines[0])); err != nil {
		return fmt.Errorf("making a Node unhealthy: %w", err)
	}
	if err := h.until("both are replaced", func() (bool, error) { return h.areGone(machines[0].UID, machines[1].UID) }); err != nil {
		return err
	}
	if err := h.running(3); err != nil {
		return err
	}
	if lost, err := h.areGone(machines[2].UID); err != nil || lost {
		return fmt.Errorf("healthy Machine %s was replaced (%w)", machines[2].Name, err)
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(5, 1)
}

// isUnknown reports whether the Ready condition of a Node is Unknown.
func (h *harness) isUnknown(name string) (bool, error) {
	var n corev1.Node
	err := h.Admin.Get(h.Context, types.NamespacedName{Name: name}, &n)
	return err == nil && v1alpha1.NodeReady(&n).Status == corev1.ConditionUnknown, err
}

// byName returns the Machines sorted by name. The names depend only on the seed.
func (h *harness) byName() ([]v1alpha1.Machine, error) {
	machines, err := h.Machines()
	slices.SortFunc(machines, func(a, b v1alpha1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return machines, err
}

// areGone reports whether none of these Machines exists.
func (h *harness) areGone(uids ...types.UID) (bool, error) {
	machines, err := h.Machines()
	return err == nil && !slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool { return slices.Contains(uids, m.UID) }), err
}

// serverOf returns the ID of the server in a Machine's provider ID.
func serverOf(m *v1alpha1.Machine) string {
	return provider.ServerIDOf(ptr.Deref(m.Spec.ProviderID, ""))
}
