package autoscaler

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The taints by which cluster-autoscaler remembers what it does.
const (
	TaintToBeDeleted = "ToBeDeletedByClusterAutoscaler"
	taintCandidate   = "DeletionCandidateOfClusterAutoscaler"
)

// passing are the prefixes of taints that go before pods come; a template does not have them.
var passing = []string{
	"node.kubernetes.io/",
	"node.cloudprovider.kubernetes.io/uninitialized",
	"node.cloudprovider.kubernetes.io/shutdown",
	"startup-taint.cluster-autoscaler.kubernetes.io/",
	"ignore-taint.cluster-autoscaler.kubernetes.io/",
	"status-taint.cluster-autoscaler.kubernetes.io/",
	TaintToBeDeleted,
	taintCandidate,
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// asTemplate is a node as another one of its group will be: without the taints that pass.
func asTemplate(n *corev1.Node, startup []string) *corev1.Node {
	t := n.DeepCopy()
	t.Spec.Unschedulable = false
	t.Spec.Taints = slices.DeleteFunc(t.Spec.Taints, func(taint corev1.Taint) bool {
		return slices.Contains(startup, taint.Key) ||
			slices.ContainsFunc(passing, func(prefix string) bool { return strings.HasPrefix(taint.Key, prefix) })
	})
	return t
}

// readyNode tells whether a node is Ready and has none of the startup taints.
func readyNode(n *corev1.Node, startup []string) bool {
	if slices.ContainsFunc(startup, func(key string) bool { return hasTaint(n, key) }) {
		return false
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
