package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/scope"
)

// observeNode looks for the Machine's Node. It uses the server that the cloud shows, or has shown, for the Machine, because
// spec.providerID alone does not prove that a Node belongs to the Machine. If no server is known, only a Node with the
// Machine's owner label belongs to it.
func (o *observer) observeNode(ctx context.Context, s *scope.Scope) error {
	seen := &s.Observed
	if seen.Cloud.Server == nil && seen.Cloud.Foreign != "" {
		return nil
	}
	matcher := nodes.NewMatcher(o.cloud, s.Machine, &seen.Cloud)
	candidates, err := o.candidates(ctx, matcher)
	if err != nil {
		return err
	}
	if len(candidates) == 0 && seen.Deleting && matcher.Server != "" {
		if candidates, err = o.unseenNode(ctx, s.Machine.ServerName()); err != nil {
			return err
		}
	}
	return o.matchNode(ctx, s, candidates)
}

// matchNode chooses the Machine's Node among the candidates, and records the facts about it.
func (o *observer) matchNode(ctx context.Context, s *scope.Scope, candidates []*corev1.Node) error {
	seen, matcher := &s.Observed, nodes.NewMatcher(o.cloud, s.Machine, &s.Observed.Cloud)
	node, taken := matcher.Match(candidates)
	if node != nil && !matcher.Owned(node) {
		var err error
		if taken, err = o.ownedByOther(ctx, s.Machine, node); err != nil {
			return err
		}
	}
	seen.Taken = taken
	if node == nil || taken != "" {
		return nil
	}
	if s.CacheOld(node) {
		return errCacheOld
	}
	seen.Node = node
	seen.StartRecorded = o.nodes.Start.HasStarted(s.Base, node)
	s.Policy.Unreachable = nodes.Unreachable(node, s.Now())
	s.Policy.NodeReady, s.Policy.NodeReports, s.Policy.NodeOutOfService = nodes.Runs(node), nodes.Reports(node), nodes.OutOfService(node)
	return nil
}

// candidates returns the Nodes that may be the Machine's. It looks them up by the server's provider ID. If none of these
// Nodes has the server's name, it also looks up Nodes by the owner label and by the server's name. A Node may be in the
// result twice.
func (o *observer) candidates(ctx context.Context, matcher nodes.Matcher) ([]*corev1.Node, error) {
	out, err := o.nodesBy(ctx, scope.IndexNodeServer, string(matcher.Server))
	if err != nil || slices.ContainsFunc(out, matcher.Named) {
		return out, err
	}
	owned, err := o.nodesBy(ctx, scope.IndexNodeOwner, string(matcher.Machine.UID))
	if err != nil {
		return nil, err
	}
	out = append(out, owned...)
	var byName corev1.Node
	err = o.target.Get(ctx, types.NamespacedName{Name: matcher.Machine.ServerName()}, &byName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading node %s: %w", matcher.Machine.ServerName(), err)
	}
	if err == nil {
		out = append(out, &byName)
	}
	return out, nil
}

// unseenNode reads a Node from the API server, although the cache shows no Node for the Machine. While the watch is late, a Node
// may have registered. Before the server of such a Node is deleted, the Node's pods must be evicted.
func (o *observer) unseenNode(ctx context.Context, name string) ([]*corev1.Node, error) {
	node := &corev1.Node{}
	if err := o.liveTarget.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return []*corev1.Node{node}, nil
}

func (o *observer) nodesBy(ctx context.Context, index, key string) ([]*corev1.Node, error) {
	if key == "" {
		return nil, nil
	}
	var list corev1.NodeList
	if err := o.target.List(ctx, &list, client.MatchingFields{index: key}); err != nil {
		return nil, fmt.Errorf("listing nodes by %s: %w", index, err)
	}
	var out []*corev1.Node
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// retryLook is the interval at which drover looks again for a Node that the API server has and the cache lacks.
const retryLook = 5 * time.Second

// missingNode reads from the API server a Node that the cache lacks although the Node's server exists. If the Node is missing
// there too, condition Ready shows that, and the health controller acts on the condition. The Machine controller itself takes
// no action.
func (o *observer) missingNode(ctx context.Context, s *scope.Scope) error {
	var node corev1.Node
	err := o.liveTarget.Get(ctx, types.NamespacedName{Name: s.Machine.Status.NodeRef.Name}, &node)
	switch {
	case err == nil && nodes.NewMatcher(o.cloud, s.Machine, &s.Observed.Cloud).Is(&node):
		s.Unsynced = true
		s.RequeueWithin(retryLook)
	case err == nil:
		s.Detail = cmp.Or(s.Observed.Taken, "node "+node.Name+" does not belong to this Machine's server")
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading node %s: %w", s.Machine.Status.NodeRef.Name, err)
	default:
		s.Detail = fmt.Sprintf("the Node does not exist although server %s is %s", s.Observed.Cloud.Server.ID, s.Observed.Cloud.Server.Status)
	}
	return nil
}

// ownedByOther returns why a Node without the Machine's owner label belongs to another Machine: either the Node's owner label
// names an existing Machine, or an older Machine matches the Node too. It returns an empty string when the Node belongs to no
// other Machine.
func (o *observer) ownedByOther(ctx context.Context, m *v1alpha1.Machine, n *corev1.Node) (string, error) {
	owner := v1alpha1.NodeOwner(n.Labels, n.Annotations)
	exists, err := o.machineExists(ctx, m, owner)
	switch {
	case err != nil:
		return "", err
	case exists:
		return fmt.Sprintf("node %s belongs to another Machine: its %s is that Machine's UID %s", n.Name, v1alpha1.AnnotationOwnedBy, owner), nil
	}
	return o.contested(ctx, m, n)
}

// machineExists reports whether a Machine other than m has the given UID; false when uid is empty.
func (o *observer) machineExists(ctx context.Context, m *v1alpha1.Machine, uid string) (bool, error) {
	if uid == "" || uid == string(m.UID) {
		return false, nil
	}
	var list v1alpha1.MachineList
	if err := o.control.List(ctx, &list, client.MatchingFields{scope.IndexMachineUID: uid}); err != nil {
		return false, fmt.Errorf("looking for the Machine with UID %s: %w", uid, err)
	}
	return len(list.Items) > 0, nil
}

// contested returns a message that names the other Machine to which a Node without an owner label belongs; an empty string
// when there is no such Machine. Two Machines can match the same Node: both have servers with the Node's name, or one of them
// uses a cloud that lists servers of other owners. In that case the Node belongs to the older Machine, because a second
// Machine for the same Node can only be created after the Node's own Machine.
func (o *observer) contested(ctx context.Context, m *v1alpha1.Machine, n *corev1.Node) (string, error) {
	index := client.MatchingFields{scope.IndexMachineName: n.Name}
	if id := o.cloud.ServerID(n.Spec.ProviderID); id != "" {
		index = client.MatchingFields{scope.IndexMachineServer: string(id)}
	}
	var list v1alpha1.MachineList
	if err := o.control.List(ctx, &list, index); err != nil {
		return "", fmt.Errorf("listing the Machines that node %s may belong to: %w", n.Name, err)
	}
	for i := range list.Items {
		rival := &list.Items[i]
		// A Node without an owner label never belongs to a Machine whose server has another name.
		if rival.UID != m.UID && rival.ServerName() == n.Name && isOlder(rival, m) && o.mayHave(ctx, rival, n) {
			return fmt.Sprintf("node %s belongs to the older Machine %s/%s, which has the same server or a server of the same name", n.Name, rival.Namespace, rival.Name), nil
		}
	}
	return "", nil
}

// isOlder reports whether a was created before b. Of two Machines created in the same second, the one with the smaller UID
// counts as older.
func isOlder(a, b *v1alpha1.Machine) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// mayHave reports whether the Node may run on the Machine's server. It returns false when spec.providerID names no server.
// Otherwise it compares the Node with the server that the cloud shows for the Machine, and returns true while the cloud's
// servers are not known.
func (o *observer) mayHave(ctx context.Context, m *v1alpha1.Machine, n *corev1.Node) bool {
	if cloud.RecordedServer(o.cloud, m) == "" {
		return false
	}
	instance, err := o.cloud.Instance(ctx, m)
	if err != nil {
		return true
	}
	shown, err := instance.Observe(ctx)
	if err != nil || !shown.Synced {
		return true
	}
	id := o.cloud.ServerID(n.Spec.ProviderID)
	return shown.Server != nil && (id == "" || id == shown.Server.Key)
}
