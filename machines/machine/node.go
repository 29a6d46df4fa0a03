package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// clockDifference is how far the clock of the cloud may be ahead of the API server's. A Node cannot register before its
// server is created, but the two times come from two clocks. A cloud whose clock differs by more breaks the default join
// timeout, which is as long.
const clockDifference = 10 * time.Minute

// nodeMatcher decides which Node is a Machine's.
type nodeMatcher struct {
	machine *v1alpha1.Machine
	// server is the ID of the Machine's server; empty while none is known.
	server string
	// name is the server's name in the cloud, and created is when it was created. Both are empty when only the ID is known.
	name    string
	created time.Time
	// adopted: an operator lets the Machine take over this server, which is older than the Machine.
	adopted bool
}

// match returns the Machine's Node among the candidates, and nil when there is none. A Node with the server's provider ID
// comes before one with the Machine's owner label, and that before one with the server's name. taken says why the Node of
// the server's provider ID or name is not the Machine's; it is empty when there is no such Node or no server is known
// (MC-52, MCM-41). The Node with the server's name comes before all others of its kind.
func (s nodeMatcher) match(candidates []*corev1.Node) (node *corev1.Node, taken string) {
	// A kubelet chooses its label and provider ID when it registers, but not its name.
	slices.SortStableFunc(candidates, func(a, b *corev1.Node) int {
		switch {
		case s.named(a) == s.named(b):
			return 0
		case s.named(a):
			return -1
		}
		return 1
	})
	for _, fits := range []func(*corev1.Node) bool{s.hasServer, s.owned, s.named} {
		for _, n := range candidates {
			if !fits(n) {
				continue
			}
			why := s.refuses(n)
			if why == "" {
				return n, ""
			}
			if s.server != "" && (s.hasServer(n) || s.named(n)) {
				taken = cmp.Or(taken, why)
			}
		}
	}
	return nil, taken
}

// is reports whether one Node is the Machine's.
func (s nodeMatcher) is(n *corev1.Node) bool {
	found, _ := s.match([]*corev1.Node{n})
	return found != nil
}

// hasServer reports whether the Node has the provider ID of the Machine's server.
func (s nodeMatcher) hasServer(n *corev1.Node) bool {
	return s.server != "" && providerid.Server(n.Spec.ProviderID) == strings.ToLower(s.server)
}

// owned reports whether the Node has the Machine's owner label.
func (s nodeMatcher) owned(n *corev1.Node) bool {
	return n.Labels[v1alpha1.LabelOwnedBy] == string(s.machine.UID)
}

// named reports whether the Node has the name of the Machine's server.
func (s nodeMatcher) named(n *corev1.Node) bool { return n.Name == s.machine.ServerName() }

// refuses returns why the Node is not the Machine's; an empty string when it is.
func (s nodeMatcher) refuses(n *corev1.Node) string {
	if s.owned(n) {
		return s.refusesOwned(n)
	}
	owner := n.Labels[v1alpha1.LabelOwnedBy]
	switch {
	case s.server == "":
		return "no server is known"
	case n.Spec.ProviderID != "" && !s.hasServer(n):
		return fmt.Sprintf("node %s has the provider ID %s, which is not that of server %s", n.Name, n.Spec.ProviderID, s.server)
	case !s.named(n):
		return fmt.Sprintf("node %s has the provider ID of server %s, but the name of that server's Node must be %s", n.Name, s.server, s.machine.ServerName())
	case s.name != "" && s.name != n.Name:
		return fmt.Sprintf("server %s is named %s in the cloud, which is not the name of node %s", s.server, s.name, n.Name)
	case owner != "" && !s.hasServer(n):
		return fmt.Sprintf("node %s belongs to the Machine with UID %s: its label %s says so", n.Name, owner, v1alpha1.LabelOwnedBy)
	case roleOf(n) != "":
		return fmt.Sprintf("node %s belongs to the control plane: it has %s", n.Name, roleOf(n))
	}
	return s.older(n)
}

// refusesOwned returns why a Node with the Machine's owner label is not the Machine's all the same; an empty string when it
// is. A kubelet can put that label on its own Node, so the provider ID must not be another server's, and a Node of another
// name needs the Machine's record: the kubelet chooses its provider ID too. A Node of the control plane must fit in everything.
func (s nodeMatcher) refusesOwned(n *corev1.Node) string {
	known := cmp.Or(strings.ToLower(s.server), namedServer(s.machine))
	ref := s.machine.Status.NodeRef
	recorded := ref != nil && ref.Name == n.Name
	switch {
	case n.Spec.ProviderID != "" && known != "" && providerid.Server(n.Spec.ProviderID) != known:
		return fmt.Sprintf("node %s has the provider ID %s, which is not that of server %s", n.Name, n.Spec.ProviderID, known)
	case !s.named(n) && !recorded:
		return fmt.Sprintf("node %s has the label of this Machine, but neither its server's name nor the Machine's record", n.Name)
	case roleOf(n) != "" && (known == "" || n.Spec.ProviderID == "" || !s.named(n) || s.older(n) != ""):
		return fmt.Sprintf("node %s belongs to the control plane: it has %s", n.Name, roleOf(n))
	}
	return ""
}

// older says that the Node existed before the Machine or its server; an empty string when it did not. The server that an
// operator lets the Machine adopt may be older, with its Node. Only times that are known are compared.
func (s nodeMatcher) older(n *corev1.Node) string {
	registered := n.CreationTimestamp
	switch {
	case s.adopted || registered.IsZero():
		return ""
	case registered.Before(&s.machine.CreationTimestamp):
		return fmt.Sprintf("node %s existed before the Machine, and does not have its label %s", n.Name, v1alpha1.LabelOwnedBy)
	case !s.created.IsZero() && registered.Add(clockDifference).Before(s.created):
		return fmt.Sprintf("node %s existed before server %s was created", n.Name, s.server)
	}
	return ""
}

// roleOf names what makes the Node one of the control plane; an empty string when nothing does.
func roleOf(n *corev1.Node) string { return v1alpha1.ControlPlaneRole(n.Labels, n.Spec.Taints) }

// candidates returns the Nodes that may be the Machine's: by the server's provider ID, and unless one of them has the server's
// name also by the owner label and by that name. A Node may be in the list twice.
func (r *Reconciler) candidates(ctx context.Context, s nodeMatcher) ([]*corev1.Node, error) {
	out, err := r.nodesBy(ctx, indexNodeServer, strings.ToLower(s.server))
	if err != nil || slices.ContainsFunc(out, s.named) {
		return out, err
	}
	owned, err := r.nodesBy(ctx, indexNodeOwner, string(s.machine.UID))
	if err != nil {
		return nil, err
	}
	out = append(out, owned...)
	var byName corev1.Node
	err = r.Target.GetClient().Get(ctx, types.NamespacedName{Name: s.machine.ServerName()}, &byName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading node %s: %w", s.machine.ServerName(), err)
	}
	if err == nil {
		out = append(out, &byName)
	}
	return out, nil
}

func (r *Reconciler) nodesBy(ctx context.Context, index, key string) ([]*corev1.Node, error) {
	if key == "" {
		return nil, nil
	}
	var list corev1.NodeList
	if err := r.Target.GetClient().List(ctx, &list, client.MatchingFields{index: key}); err != nil {
		return nil, fmt.Errorf("listing nodes by %s: %w", index, err)
	}
	var out []*corev1.Node
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}
