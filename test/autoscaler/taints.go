package autoscaler

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The taints in which cluster-autoscaler records what it is doing.
const (
	TaintToBeDeleted = "ToBeDeletedByClusterAutoscaler"
	taintCandidate   = "DeletionCandidateOfClusterAutoscaler"
)

// taintUninitialized is on a Node from its registration until a cloud-controller-manager has initialized it.
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// startupPrefixes are the prefixes of the keys of startup taints, besides those named by a flag.
var startupPrefixes = []string{
	"startup-taint.cluster-autoscaler.kubernetes.io/",
	"ignore-taint.cluster-autoscaler.kubernetes.io/",
}

// statusPrefix is the prefix of the keys of taints that are left out of templates, although a Node with one counts as ready.
const statusPrefix = "status-taint.cluster-autoscaler.kubernetes.io/"

// transientTaints are the keys of taints that are left out of templates, because they describe the state of one Node.
var transientTaints = []string{
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure,
	corev1.TaintNodeNetworkUnavailable,
	corev1.TaintNodePIDPressure,
	taintUninitialized,
	"node.cloudprovider.kubernetes.io/shutdown",
	"cloud.google.com/impending-node-termination",
	"NodeWithImpairedVolumes",
	TaintToBeDeleted,
	taintCandidate,
}

// unreadyTaints are the keys of taints that make a Node unready, whatever its conditions are. The taint of an uninitialized Node
// is not among them: the autoscaler counts such a Node as ready although no pod fits on it.
var unreadyTaints = []string{corev1.TaintNodeNotReady, corev1.TaintNodeDiskPressure, corev1.TaintNodeNetworkUnavailable}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func hasAnyTaint(n *corev1.Node, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return hasTaint(n, key) })
}

// isStartupTaint reports whether a key is that of a startup taint: it is in startup, or has one of startupPrefixes.
func isStartupTaint(key string, startup []string) bool {
	return slices.Contains(startup, key) ||
		slices.ContainsFunc(startupPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// labelTemplate is on the copies of Nodes and of templates that cluster-autoscaler works with.
const labelTemplate = "cluster-autoscaler.kubernetes.io/template-node"

// asTemplate returns a copy of the Node without transient taints, as a template for the next Node of its group. It stays cordoned if the Node
// is.
func asTemplate(n *corev1.Node, startup []string) *corev1.Node {
	t := n.DeepCopy()
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	t.Labels[labelTemplate] = "true"
	t.Spec.Taints = slices.DeleteFunc(t.Spec.Taints, func(taint corev1.Taint) bool {
		return slices.Contains(transientTaints, taint.Key) || isStartupTaint(taint.Key, startup) ||
			strings.HasPrefix(taint.Key, statusPrefix)
	})
	return t
}

// readyNode reports whether the autoscaler counts a Node as ready. A startup taint of any effect makes a Node unready unless the Node is
// cordoned, and so does the GPU label without a GPU. Other NoSchedule taints do not make a Node unready, although no pod fits on it.
func readyNode(n *corev1.Node, startup []string, gpuLabel string) bool {
	starting := !n.Spec.Unschedulable && (lacksGPU(n, gpuLabel) ||
		slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return isStartupTaint(t.Key, startup) }))
	return reportsReady(n) && !starting && !hasAnyTaint(n, unreadyTaints)
}

// knownGPUs are the resources that the autoscaler counts as GPUs.
var knownGPUs = []corev1.ResourceName{"nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx"}

// lacksGPU reports whether the Node has the GPU label and no GPU that pods can use.
func lacksGPU(n *corev1.Node, label string) bool {
	_, labelled := n.Labels[label]
	return label != "" && labelled && !slices.ContainsFunc(knownGPUs, func(name corev1.ResourceName) bool {
		q := n.Status.Allocatable[name]
		return !q.IsZero()
	})
}

// stabilization is how long a Node must have been ready, in all respects, before it is the template of its group.
const stabilization = time.Minute

// isExample reports whether the Node is a good template of its group: it is ready and has been so for a while, it is schedulable, and it is
// not being removed.
func isExample(n *corev1.Node, now time.Time, startup []string, gpuLabel string) bool {
	return readyNode(n, startup, gpuLabel) && readyChanged(n).Add(stabilization).Before(now) && !n.Spec.Unschedulable && !hasTaint(n, TaintToBeDeleted)
}

// readyChanged returns when one of the conditions and taints that decide on the Node's readiness last changed.
func readyChanged(n *corev1.Node) (last time.Time) {
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeNetworkUnavailable:
			if c.LastTransitionTime.After(last) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	return last
}

// reportsReady reports whether the Node's own conditions make it ready: Ready is True, and neither disk pressure nor an
// unavailable network is reported.
func reportsReady(n *corev1.Node) bool {
	ready := false
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			ready = c.Status == corev1.ConditionTrue
		case corev1.NodeDiskPressure, corev1.NodeNetworkUnavailable:
			if c.Status == corev1.ConditionTrue {
				return false
			}
		}
	}
	return ready
}
