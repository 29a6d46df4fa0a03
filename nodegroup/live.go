package nodegroup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// liveReader reads Nodes and Machines from the API server itself, before drover removes a Machine whose state in the caches may
// be wrong.
type liveReader struct {
	// control is the cluster of the Machines, target the cluster of the Nodes.
	control, target client.Reader
	startupTaint    string
	// cloud reads the Machines' provider specs.
	cloud cloud.Provider
}

// read reads the state of Machines that name a Node although the autoscaler believes that they never registered. drover must
// not remove a Machine whose Node exists and is only missing in the cache (CA-C70). Nor may it remove a Machine that was
// reported as not registered because its node had not started, if the node has started meanwhile. Both cases are rare; for all
// other calls read makes no request.
//
// Errors: Unavailable.
func (l liveReader) read(ctx context.Context, s *model.Snapshot, nodes []membership.Node) (model.Live, error) {
	facts := model.Live{Gone: map[types.UID]bool{}, Started: map[types.UID]bool{}}
	for _, n := range nodes {
		m := s.Named(n)
		if m == nil || !n.MadeUp() {
			continue
		}
		g := s.Groups[s.Index.GroupOf(m)]
		switch {
		case s.Index.AwaitsNode(m):
			exists, err := l.nodeExists(ctx, m.Machine)
			if err != nil {
				return facts, model.Unavailablef(err, "reading node %s of machine %s (nothing was changed)", m.Machine.Status.NodeRef.Name, m.Machine.Name)
			}
			facts.Gone[m.UID()] = !exists
		case g != nil && g.Concealed(m):
			started, err := l.hasStarted(ctx, m)
			if err != nil {
				return facts, model.Unavailablef(err, "reading machine %s and its node (nothing was changed)", m.Machine.Name)
			}
			facts.Started[m.UID()] = started
		}
	}
	return facts, nil
}

// hasStarted reports whether a member's node has started: the Machine's phase is Running, or pods can run on the node.
func (l liveReader) hasStarted(ctx context.Context, m *membership.Member) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	node, machine := &corev1.Node{}, &v1alpha1.Machine{}
	if err := l.target.Get(ctx, client.ObjectKeyFromObject(m.Node), node); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if err := l.control.Get(ctx, client.ObjectKeyFromObject(m.Machine), machine); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	takesPods := v1alpha1.NodeReady(node).Status == corev1.ConditionTrue && !membership.Tainted(node, l.startupTaint)
	return takesPods || !membership.NewMember(l.cloud, machine).WithNode(node, m.ProviderID).Starting(), nil
}

// nodeExists reports whether the Node that a Machine names exists. A Node with another UID counts, too: the Node was deleted
// and has registered again, because names of Machines are not reused.
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
