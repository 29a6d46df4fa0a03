package v1alpha1

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controlPlaneRoles are the keys of the labels and taints of control plane Nodes. Kubernetes used the second key before 1.24.
var controlPlaneRoles = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// ControlPlaneRole returns a text that names the label or taint that makes a Node part of the control plane. It returns "" when the Node
// has no such label or taint.
func ControlPlaneRole(labels map[string]string, taints []corev1.Taint) string {
	for _, key := range controlPlaneRoles {
		if _, there := labels[key]; there {
			return "the label " + key
		}
		if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key }) {
			return "the taint " + key
		}
	}
	return ""
}

// nodeRestriction is the domain of labels by which administrators isolate Nodes: the NodeRestriction admission plugin lets no kubelet set a
// label of this domain or of a domain below it on its own Node.
const nodeRestriction = "node-restriction.kubernetes.io"

// IsReservedNodeLabel reports whether a label with this key gives a Node authority: other programs place pods with valuable rights by it,
// or treat the Node as part of the control plane. A kubelet cannot put such a label on its own Node. drover puts it on a Node only when the
// operator has allowed the key, because the author of a Machine controls the Node's server.
func IsReservedNodeLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.Contains(controlPlaneRoles, key) || domain == nodeRestriction || strings.HasSuffix(domain, "."+nodeRestriction)
}

// WithheldNodeLabels returns the keys of the reserved labels that drover does not put on a Node, because they are not among the allowed keys.
// The keys are sorted, and each is listed once.
func WithheldNodeLabels(allowed []string, labels ...map[string]string) []string {
	var withheld []string
	for _, some := range labels {
		for key := range some {
			if IsReservedNodeLabel(key) && !slices.Contains(allowed, key) {
				withheld = append(withheld, key)
			}
		}
	}
	slices.Sort(withheld)
	return slices.Compact(withheld)
}

// Condition returns the Machine's condition of a type; an empty condition when the Machine has none. When several conditions have the
// type, the first one is drover's: machine-controller appends its condition Ready while the stored one is not True.
func (m *Machine) Condition(name string) *MachineCondition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == name {
			return &m.Status.Conditions[i]
		}
	}
	return &MachineCondition{}
}

// SetCondition sets the Machine's condition of the type of next. Its transition time becomes now if its status changes, and stays otherwise.
// Afterwards the Machine has one condition of the type: the others, which machine-controller appended, are removed.
func (m *Machine) SetCondition(next MachineCondition, now metav1.Time) {
	list := &m.Status.Conditions
	typed := func(c MachineCondition) bool { return c.Type == next.Type }
	i := slices.IndexFunc(*list, typed)
	if i < 0 {
		i, *list = len(*list), append(*list, MachineCondition{Type: next.Type})
	}
	have := &(*list)[i]
	if have.Status != next.Status || have.LastTransitionTime == nil {
		have.LastTransitionTime = &now
	}
	have.Status, have.Reason, have.Message = next.Status, next.Reason, next.Message
	*list = append((*list)[:i+1], slices.DeleteFunc((*list)[i+1:], typed)...)
}

// NodeOwner returns the UID of the Machine that a Node belongs to, according to the Node's labels and annotations; empty when they name
// none. The label comes first: drover removes it, so machine-controller has set it after drover has set the annotation.
func NodeOwner(labels, annotations map[string]string) string {
	return cmp.Or(labels[LabelOwnedBy], annotations[AnnotationOwnedBy])
}

// knownGPUs are the resources that the autoscaler counts as GPUs.
var knownGPUs = []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "habana.ai/gaudi", "microsoft.com/directx"}

// IsKnownGPU reports whether the autoscaler counts a resource as GPUs.
func IsKnownGPU(name corev1.ResourceName) bool { return slices.Contains(knownGPUs, name) }

// IsGPU reports whether a resource is a GPU, or a part of one, judging by the names that device plugins use.
func IsGPU(name corev1.ResourceName) bool {
	domain, device, ok := strings.Cut(string(name), "/")
	return IsKnownGPU(name) || ok && (device == "gpu" || device == "vgpu" || domain == "gpu.intel.com" ||
		strings.HasPrefix(device, "mig-") || strings.HasPrefix(device, "gpu."))
}

// HasResource reports whether a list has more than 0 of a resource whose name the function is accepts.
func HasResource(list corev1.ResourceList, is func(corev1.ResourceName) bool) bool {
	for name, q := range list {
		if is(name) && q.Sign() > 0 {
			return true
		}
	}
	return false
}

// NodeReady returns the Node's condition Ready, or a zero condition when the Node reports none.
func NodeReady(n *corev1.Node) corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return n.Status.Conditions[i]
		}
	}
	return corev1.NodeCondition{}
}

// startupTaints are the prefixes of the keys that the autoscaler takes for startup taints. All releases know the first one.
var startupTaints = []string{"ignore-taint.cluster-autoscaler.kubernetes.io/", "startup-taint.cluster-autoscaler.kubernetes.io/"}

// IsStartupTaint reports whether the autoscaler takes a taint with this key for a startup taint, whatever its flags are: another program
// removes it before pods run on the Node.
func IsStartupTaint(key string) bool {
	return slices.ContainsFunc(startupTaints, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
