package nodegroup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// vanished looks at what the autoscaler takes for never registered although the Machine names its Node: either the watch
// has not brought the Node, which then must not go (CA-C70), or somebody has deleted it. It gives the UIDs of the Machines
// whose Node is gone on a live read. That is rare; all other calls read nothing.
//
// Errors: Unavailable.
func (g *Groups) vanished(ctx context.Context, nodes []Node) (map[types.UID]bool, error) {
	s := g.current().snapshot
	var gone map[types.UID]bool
	for _, n := range nodes {
		if !n.madeUp() {
			continue
		}
		m := s.named(n)
		if m == nil || !s.index.awaitsNode(m) || gone[m.machine.UID] {
			continue
		}
		there, err := g.nodeThere(ctx, m.machine)
		if err != nil {
			return nil, unavailable(err, "reading node %s of machine %s, nothing was changed", m.machine.Status.NodeRef.Name, m.machine.Name)
		}
		if !there {
			if gone == nil {
				gone = map[types.UID]bool{}
			}
			gone[m.machine.UID] = true
		}
	}
	return gone, nil
}

// awaitsNode tells whether a Machine names a Node that the watch has not brought, or brings no more.
func (ix *index) awaitsNode(m *member) bool {
	return m.node == nil && m.machine.Status.NodeRef != nil && ix.nodes.get(m.machine.Status.NodeRef.Name).node == nil
}

// nodeThere asks the API server whether a Node of the name that a Machine gives is there. With another UID it has been
// deleted and has registered again: names are not given twice.
func (g *Groups) nodeThere(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := g.nodes.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
