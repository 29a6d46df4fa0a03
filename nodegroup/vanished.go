package nodegroup

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// liveFacts are what the API server itself says of Machines, by UID, beyond what the watches have brought.
type liveFacts struct {
	// gone are Machines whose Node somebody has deleted although they still name it.
	gone map[types.UID]bool
	// started are Machines whose node has started.
	started map[types.UID]bool
}

// lookAt reads what becomes of Machines that the autoscaler takes for never registered although they name a Node. When the
// watch has not brought the Node, it must not go (CA-C70), unless somebody has deleted it. When the node is shown as not
// registered because it has not started, it must not go if it has started meanwhile. That is rare; all other calls read
// nothing.
//
// Errors: Unavailable.
func (g *Groups) lookAt(ctx context.Context, nodes []Node) (liveFacts, error) {
	s := g.current().snapshot
	facts := liveFacts{gone: map[types.UID]bool{}, started: map[types.UID]bool{}}
	for _, n := range nodes {
		m := s.named(n)
		if m == nil || !n.madeUp() {
			continue
		}
		grp := s.groups[s.index.groupOf(m)]
		switch {
		case s.index.awaitsNode(m):
			there, err := g.nodeThere(ctx, m.machine)
			if err != nil {
				return facts, unavailable(err, "reading node %s of machine %s, nothing was changed", m.machine.Status.NodeRef.Name, m.machine.Name)
			}
			facts.gone[m.machine.UID] = !there
		case grp != nil && grp.concealed(m):
			started, err := g.hasStarted(ctx, m)
			if err != nil {
				return facts, unavailable(err, "reading machine %s and its node, nothing was changed", m.machine.Name)
			}
			facts.started[m.machine.UID] = started
		}
	}
	return facts, nil
}

// hasStarted asks the API server whether a member's node has started: its Machine says so, or pods can run on it already.
func (g *Groups) hasStarted(ctx context.Context, m *member) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	node, machine := &corev1.Node{}, &v1alpha1.Machine{}
	if err := g.nodes.Get(ctx, client.ObjectKeyFromObject(m.node), node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if err := g.live.Get(ctx, client.ObjectKeyFromObject(m.machine), machine); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	takesPods := nodeReady(node) && !tainted(node, g.options.StartupTaint)
	return takesPods || !newMember(machine).on(node, m.providerID).starting(), nil
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
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
