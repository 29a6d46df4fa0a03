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

// liveReader reads Nodes and Machines from the API server itself, before one is removed that a watch may show wrongly.
type liveReader struct {
	// control is the cluster of the Machines, target that of the Nodes.
	control, target client.Reader
	startupTaint    string
}

// read reads what became of Machines that the autoscaler takes for never registered although they name a Node. When the watch
// has not brought the Node, it must not be removed (CA-C70), unless somebody has deleted it. When the node is shown as not
// registered because it has not started, it must not be removed if it has started meanwhile. That is rare; all other calls
// read nothing.
//
// Errors: Unavailable.
func (l liveReader) read(ctx context.Context, s *Snapshot, nodes []Node) (Live, error) {
	facts := Live{Gone: map[types.UID]bool{}, Started: map[types.UID]bool{}}
	for _, n := range nodes {
		m := s.named(n)
		if m == nil || !n.madeUp() {
			continue
		}
		g := s.groups[s.index.groupOf(m)]
		switch {
		case s.index.awaitsNode(m):
			exists, err := l.nodeExists(ctx, m.machine)
			if err != nil {
				return facts, unavailable(err, "reading node %s of machine %s, nothing was changed", m.machine.Status.NodeRef.Name, m.machine.Name)
			}
			facts.Gone[m.uid()] = !exists
		case g != nil && g.concealed(m):
			started, err := l.hasStarted(ctx, m)
			if err != nil {
				return facts, unavailable(err, "reading machine %s and its node, nothing was changed", m.machine.Name)
			}
			facts.Started[m.uid()] = started
		}
	}
	return facts, nil
}

// hasStarted reports whether a member's node has started: its Machine says so, or pods can run on it already.
func (l liveReader) hasStarted(ctx context.Context, m *member) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	node, machine := &corev1.Node{}, &v1alpha1.Machine{}
	if err := l.target.Get(ctx, client.ObjectKeyFromObject(m.node), node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if err := l.control.Get(ctx, client.ObjectKeyFromObject(m.machine), machine); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	takesPods := nodeReady(node) && !tainted(node, l.startupTaint)
	return takesPods || !newMember(machine).withNode(node, m.providerID).starting(), nil
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// nodeExists reports whether there is a Node of the name that a Machine names. One with another UID was deleted and has
// registered again: names are not used twice.
func (l liveReader) nodeExists(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := l.target.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
