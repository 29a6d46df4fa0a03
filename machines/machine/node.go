package machine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// claim finds the Machine's Node among candidates. The provider ID decides when the Node has one, since it is the
// server's own identity. A Node without one is the Machine's when it bears its name and no other Machine's mark. Else
// taken says why the Node of that name is not the Machine's (MC-52, MCM-41). When no server is known, only a Node with
// the Machine's own mark is.
func claim(m *v1alpha1.Machine, server string, candidates []*corev1.Node) (node *corev1.Node, taken string) {
	for _, n := range candidates {
		if server != "" && serverID(n.Spec.ProviderID) == strings.ToLower(server) {
			return n, ""
		}
	}
	for _, n := range candidates {
		if n.Name != m.ServerName() {
			continue
		}
		owner := n.Labels[v1alpha1.LabelOwnedBy]
		switch {
		case server == "" && owner != string(m.UID):
			return nil, ""
		case server == "":
			return n, ""
		case n.Spec.ProviderID != "":
			return nil, fmt.Sprintf("node %s has the provider ID %s, which is not that of server %s", n.Name, n.Spec.ProviderID, server)
		case owner != "" && owner != string(m.UID):
			return nil, fmt.Sprintf("node %s is marked as that of the Machine with UID %s", n.Name, owner)
		}
		return n, ""
	}
	return nil, ""
}

// candidates are the Nodes that may be the Machine's: by the server's id, by the name in status, by the server's name.
func (r *Reconciler) candidates(ctx context.Context, m *v1alpha1.Machine, server string) ([]*corev1.Node, error) {
	var out []*corev1.Node
	if server != "" {
		var list corev1.NodeList
		err := r.Target.GetClient().List(ctx, &list, client.MatchingFields{indexNodeServer: strings.ToLower(server)})
		if err != nil {
			return nil, fmt.Errorf("listing nodes by provider ID: %w", err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
	var byName corev1.Node
	err := r.Target.GetClient().Get(ctx, types.NamespacedName{Name: m.ServerName()}, &byName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading node %s: %w", m.ServerName(), err)
	}
	if err == nil {
		out = append(out, &byName)
	}
	return out, nil
}
