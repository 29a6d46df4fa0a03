package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// seeker looks for a Machine's Node.
type seeker struct {
	machine *v1alpha1.Machine
	// server is the ID of the Machine's server; empty while none is known.
	server string
	// addresses are the server's.
	addresses []corev1.NodeAddress
}

// claim finds the Machine's Node among candidates. The provider ID decides when the Node has one, since it is the
// server's own identity. A Node without one is the Machine's when it bears its mark; or its name, and as a last resort
// one of its server's addresses, unless it bears another Machine's mark or is older than the Machine. Else taken says why
// the Node of that name is not the Machine's (MC-52, MCM-41). When no server is known, only a Node with the Machine's own
// mark is.
func (s seeker) claim(candidates []*corev1.Node) (node *corev1.Node, taken string) {
	for _, n := range candidates {
		if s.server != "" && providerid.Server(n.Spec.ProviderID) == strings.ToLower(s.server) {
			return n, ""
		}
	}
	for _, fits := range []func(*corev1.Node) bool{s.marked, s.named, s.shares} {
		for _, n := range candidates {
			if fits(n) && s.foreign(n) == "" {
				return n, ""
			}
		}
	}
	for _, n := range candidates {
		if s.server != "" && s.named(n) {
			return nil, s.foreign(n)
		}
	}
	return nil, ""
}

// marked tells whether the Node bears the Machine's mark, named whether it bears its server's name.
func (s seeker) marked(n *corev1.Node) bool {
	return n.Labels[v1alpha1.LabelOwnedBy] == string(s.machine.UID)
}

func (s seeker) named(n *corev1.Node) bool { return n.Name == s.machine.ServerName() }

// is tells whether one Node is the Machine's.
func (s seeker) is(n *corev1.Node) bool {
	found, _ := s.claim([]*corev1.Node{n})
	return found != nil
}

// foreign says why a Node is not the Machine's, by anything but its name and address; empty when it may be.
func (s seeker) foreign(n *corev1.Node) string {
	owner, ours := n.Labels[v1alpha1.LabelOwnedBy], s.marked(n)
	switch {
	case s.server == "" && !ours:
		return "no server is known"
	case s.server != "" && n.Spec.ProviderID != "":
		return fmt.Sprintf("node %s has the provider ID %s, which is not that of server %s", n.Name, n.Spec.ProviderID, s.server)
	case owner != "" && !ours:
		return fmt.Sprintf("node %s is marked as that of the Machine with UID %s", n.Name, owner)
	case !ours && n.CreationTimestamp.Before(&s.machine.CreationTimestamp):
		return fmt.Sprintf("node %s was there before the Machine, and has neither its mark nor a provider ID", n.Name)
	}
	return ""
}

// shares tells whether the Node reports an address of the server inside the cloud.
func (s seeker) shares(n *corev1.Node) bool {
	return slices.ContainsFunc(s.addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && slices.Contains(n.Status.Addresses, a)
	})
}

// candidates are the Nodes that may be the Machine's: by the server's ID, by its mark and by the server's name, else by the
// server's addresses.
func (r *Reconciler) candidates(ctx context.Context, s seeker) ([]*corev1.Node, error) {
	out, err := r.nodesBy(ctx, indexNodeServer, strings.ToLower(s.server))
	if err != nil || len(out) > 0 {
		return out, err
	}
	if out, err = r.nodesBy(ctx, indexNodeOwner, string(s.machine.UID)); err != nil {
		return nil, err
	}
	var byName corev1.Node
	err = r.Target.GetClient().Get(ctx, types.NamespacedName{Name: s.machine.ServerName()}, &byName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading node %s: %w", s.machine.ServerName(), err)
	}
	if err == nil {
		out = append(out, &byName)
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, a := range s.addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		found, err := r.nodesBy(ctx, indexNodeAddress, a.Address)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
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
