package chaos

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/world"
)

// oneSet creates a set of two, deletes one server outside of drover, scales the set down, and deletes it.
func (h *harness) oneSet() error {
	set, err := h.runningSet(2)
	if err != nil {
		return err
	}
	if err := h.loseOneOfTwo(); err != nil {
		return err
	}
	h.recordDeletion()
	if err := h.scale(set, 1); err != nil {
		return err
	}
	if err := h.running(1); err != nil {
		return err
	}
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(3, 1)
}

// manyLeave creates a set of eight, scales it down to two, and deletes it. Six Machines leave at once: drover must not take the
// deletion of so many servers for a loss.
func (h *harness) manyLeave() error {
	set, err := h.runningSet(8)
	if err != nil {
		return err
	}
	h.recordDeletion()
	if err := h.scale(set, 2); err != nil {
		return err
	}
	if err := h.running(2); err != nil {
		return err
	}
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(8, 1)
}

// manyLost creates a set of eight, deletes six servers outside of drover, and deletes the set once all are replaced.
func (h *harness) manyLost() error {
	set, err := h.runningSet(8)
	if err != nil {
		return err
	}
	servers := h.Ours().Servers
	// The servers are chosen by their names, because names depend only on the seed and IDs do not.
	slices.SortFunc(servers, func(a, b string) int { return cmp.Compare(h.serverName(a), h.serverName(b)) })
	lost := servers[:6]
	for _, id := range lost {
		if !h.Cloud.DeleteServer(id) {
			return fmt.Errorf("server %s could not be deleted", id)
		}
	}
	if err := h.until("the lost servers are replaced", func() (bool, error) {
		now := h.Ours().Servers
		return len(now) == 8 && !slices.ContainsFunc(lost, func(id string) bool { return slices.Contains(now, id) }), nil
	}); err != nil {
		return err
	}
	if err := h.running(8); err != nil {
		return err
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(14, 1)
}

// runningSet creates a set of n Machines and waits until they run.
func (h *harness) runningSet(n int) (*v1alpha1.MachineSet, error) {
	m, err := h.NewMachine()
	if err != nil {
		return nil, err
	}
	set, err := h.setOf(int32(n), m)
	if err != nil {
		return nil, err
	}
	return set, h.running(n)
}

// setWithFailure creates a set of two whose first server fails, and deletes it.
func (h *harness) setWithFailure() error {
	set, err := h.runningSet(2)
	if err != nil {
		return err
	}
	h.recordDeletion()
	if err := h.Admin.Delete(h.Context, set); err != nil {
		return fmt.Errorf("deleting the set: %w", err)
	}
	return h.ended(3, 1)
}

// loseOneOfTwo deletes a server outside of drover, and waits until it is replaced.
func (h *harness) loseOneOfTwo() error {
	// The server is chosen by its name, because names depend only on the seed and IDs do not.
	lost := slices.MinFunc(h.Ours().Servers, func(a, b string) int { return cmp.Compare(h.serverName(a), h.serverName(b)) })
	if !h.Cloud.DeleteServer(lost) {
		return fmt.Errorf("server %s could not be deleted", lost)
	}
	if err := h.until("the lost server is replaced", func() (bool, error) {
		return !slices.Contains(h.Ours().Servers, lost) && len(h.Ours().Servers) == 2, nil
	}); err != nil {
		return err
	}
	return h.running(2)
}

// setOf creates a set of n Machines with the spec of m.
func (h *harness) setOf(n int32, m *v1alpha1.Machine) (*v1alpha1.MachineSet, error) {
	labels := map[string]string{"set": "workers"}
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: world.Namespace}}
	set.Spec.Replicas = &n
	set.Spec.Selector = metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Metadata.Labels = labels
	set.Spec.Template.Spec = m.Spec
	if err := h.Admin.Create(h.Context, set); err != nil {
		return nil, fmt.Errorf("creating the set: %w", err)
	}
	return set, nil
}

func (h *harness) serverName(id string) string {
	s, _ := h.Cloud.Server(id)
	return s.Name
}

func (h *harness) scale(set *v1alpha1.MachineSet, n int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	if err := h.Admin.Patch(h.Context, set, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("scaling the set: %w", err)
	}
	return nil
}
