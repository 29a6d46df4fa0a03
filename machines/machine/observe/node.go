package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/scope"
)

// observeNode looks for the Machine's Node. It uses the server that the cloud shows, or has shown, for the Machine, because
// spec.providerID alone does not prove that a Node belongs to the Machine. If no server is known, only a Node with the
// Machine's owner label belongs to it.
func (o *Observer) observeNode(ctx context.Context, s *scope.Scope) error {
	seen := &s.Observed
	if seen.Cloud.Server == nil && seen.Cloud.Foreign != "" {
		return nil
	}
	matcher := nodes.NewMatcher(o.Cloud, s.Machine, &seen.Cloud)
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
func (o *Observer) matchNode(ctx context.Context, s *scope.Scope, candidates []*corev1.Node) error {
	seen, matcher := &s.Observed, nodes.NewMatcher(o.Cloud, s.Machine, &s.Observed.Cloud)
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
		return ErrCacheOld
	}
	seen.Node = node
	seen.StartRecorded = o.Start.HasStarted(s.Base, node)
	s.Policy.Unreachable = nodes.Unreachable(node, s.Now())
	s.Policy.NodeReady, s.Policy.NodeReports, s.Policy.NodeOutOfService = nodes.Runs(node), nodes.Reports(node), nodes.OutOfService(node)
	return nil
}

// candidates returns the Nodes that may be the Machine's. It looks them up by the server's provider ID. If none of these
// Nodes has the server's name, it also looks up Nodes by the owner label and by the server's name. A Node may be in the
// result twice.
func (o *Observer) candidates(ctx context.Context, matcher nodes.Matcher) ([]*corev1.Node, error) {
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
	err = o.Target.Get(ctx, types.NamespacedName{Name: matcher.Machine.ServerName()}, &byName)
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
func (o *Observer) unseenNode(ctx context.Context, name string) ([]*corev1.Node, error) {
	node := &corev1.Node{}
	if err := o.Live.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return []*corev1.Node{node}, nil
}

func (o *Observer) nodesBy(ctx context.Context, index, key string) ([]*corev1.Node, error) {
	if key == "" {
		return nil, nil
	}
	var list corev1.NodeList
	if err := o.Target.List(ctx, &list, client.MatchingFields{index: key}); err != nil {
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

// MissingNode reads from the API server a Node that the cache lacks although the Node's server exists. If the Node is missing
// there too, condition Ready shows that, and the health controller acts on the condition. The Machine controller itself takes
// no action.
func (o *Observer) MissingNode(ctx context.Context, s *scope.Scope) error {
	var node corev1.Node
	err := o.Live.Get(ctx, types.NamespacedName{Name: s.Machine.Status.NodeRef.Name}, &node)
	switch {
	case err == nil && nodes.NewMatcher(o.Cloud, s.Machine, &s.Observed.Cloud).Is(&node):
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
