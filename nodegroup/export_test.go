package nodegroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Steady gives Groups in which nothing happens, of that many nodes in that many groups, and its Nodes.
func Steady(t testing.TB, nodes, groups int) (*Groups, []*corev1.Node) {
	t.Helper()
	w := large(nodes, groups)
	return newBench(t, w).groups, w.Nodes
}
