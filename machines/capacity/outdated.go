package capacity

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
)

// outdated reports whether a node was created with other kubelet settings than a new node of its group gets. That happens because the
// annotations of a MachineDeployment change without a rollout, and existing nodes keep their settings. Such nodes do not show what a new
// node offers. outdated compares only settings that annotations change. Other settings may come from user data that drover does not
// write; only the nodes themselves show them.
func outdated(n *corev1.Node, s bootstrap.KubeletSettings) bool {
	if pods, ok := n.Status.Capacity[corev1.ResourcePods]; ok && s.MaxPods != bootstrap.DefaultKubeletSettings().MaxPods && pods.Value() != int64(s.MaxPods) {
		return true
	}
	if s.ReservesByDefault() {
		return false
	}
	total := cloud.Shape{CPU: *n.Status.Capacity.Cpu(), Memory: *n.Status.Capacity.Memory()}
	want, err := allocatable(total, s, 0)
	if err != nil {
		return false
	}
	memory := n.Status.Allocatable.Memory().Value() - want.Memory().Value()
	for name, q := range n.Status.Capacity {
		// The kubelet subtracts preallocated huge pages from the memory that pods may use. This is not a difference in settings.
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory += q.Value()
		}
	}
	// Percentages may be rounded in different ways, but a changed reservation differs by more than 1 MiB.
	return n.Status.Allocatable.Cpu().Cmp(*want.Cpu()) != 0 || max(memory, -memory) > 1<<20
}
