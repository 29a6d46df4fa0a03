package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// clockDifference is how far the cloud's clock may be ahead of the API server's clock. A Node cannot register before its
// server is created, but the two times come from two clocks. So a Node with the server's provider ID is never compared.
const clockDifference = 10 * time.Minute

// Matcher decides which Node belongs to a Machine.
type Matcher struct {
	// Provider parses provider IDs.
	Provider cloud.Provider
	Machine  *v1alpha1.Machine
	// Server is the Machine's server; empty while no server is known.
	Server cloud.ServerID
	// Name is the server's name in the cloud, and Created its creation time. Both are empty when only the ID is known.
	Name    string
	Created time.Time
	// Adopted reports whether an operator lets the Machine adopt this server, although the server is older than the Machine.
	Adopted bool
}

// NewMatcher returns the matcher for a Machine. Its server is the one that the cloud shows, or has shown, for the Machine.
// spec.providerID is not used, because an author of the Machine can write that field.
func NewMatcher(provider cloud.Provider, m *v1alpha1.Machine, f *cloud.Facts) Matcher {
	s := Matcher{Provider: provider, Machine: m, Server: f.Had}
	if server := f.Server; server != nil {
		s.Server, s.Name, s.Created, s.Adopted = server.Key, server.Name, server.Created, server.Adopted
	}
	return s
}

// Match returns the Machine's Node among the candidates; nil when none of them is. It looks first for a Node with the
// server's provider ID, then with the Machine's owner label, then with the server's name. If several Nodes match in the same
// way, a Node with the server's name comes first. taken explains why the Node with the server's provider ID or name is not
// the Machine's. It is empty when there is no such Node, or when no server is known (MC-52, MCM-41).
func (s Matcher) Match(candidates []*corev1.Node) (node *corev1.Node, taken string) {
	// Sort the Nodes with the server's name first: a kubelet chooses its labels and provider ID when it registers, but not
	// its name.
	slices.SortStableFunc(candidates, func(a, b *corev1.Node) int {
		switch {
		case s.Named(a) == s.Named(b):
			return 0
		case s.Named(a):
			return -1
		}
		return 1
	})
	for _, fits := range []func(*corev1.Node) bool{s.hasServer, s.Owned, s.Named} {
		for _, n := range candidates {
			if !fits(n) {
				continue
			}
			why := s.refuses(n)
			if why == "" {
				return n, ""
			}
			if s.Server != "" && (s.hasServer(n) || s.Named(n)) {
				taken = cmp.Or(taken, why)
			}
		}
	}
	return nil, taken
}

// Is reports whether the Node belongs to the Machine.
func (s Matcher) Is(n *corev1.Node) bool {
	found, _ := s.Match([]*corev1.Node{n})
	return found != nil
}

// hasServer reports whether the Node has the provider ID of the Machine's server.
func (s Matcher) hasServer(n *corev1.Node) bool {
	return s.Server != "" && s.Provider.ServerID(n.Spec.ProviderID) == s.Server
}

// providerID returns the Node's provider ID. It returns an empty string when machine-controller has made it of the Machine's own UID,
// because it then says nothing about the server (F-133).
func (s Matcher) providerID(n *corev1.Node) string {
	if uid, ok := v1alpha1.MachineControllerUID(n.Spec.ProviderID); ok && uid == s.Machine.UID {
		return ""
	}
	return n.Spec.ProviderID
}

// Owned reports whether the Node names the Machine as its owner.
func (s Matcher) Owned(n *corev1.Node) bool {
	return ownerOf(n) == string(s.Machine.UID)
}

// Named reports whether the Node has the name of the Machine's server.
func (s Matcher) Named(n *corev1.Node) bool { return n.Name == s.Machine.ServerName() }

// refuses returns why the Node is not the Machine's; an empty string when it is the Machine's.
func (s Matcher) refuses(n *corev1.Node) string {
	if s.Owned(n) {
		return s.refusesOwned(n)
	}
	owner := ownerOf(n)
	switch {
	case s.Server == "":
		return "no server is known"
	case s.providerID(n) != "" && !s.hasServer(n):
		return fmt.Sprintf("node %s has the provider ID %s, which is not that of server %s", n.Name, n.Spec.ProviderID, s.Server)
	case !s.Named(n):
		return fmt.Sprintf("node %s has the provider ID of server %s, but the name of that server's Node must be %s", n.Name, s.Server, s.Machine.ServerName())
	case s.Name != "" && s.Name != n.Name:
		return fmt.Sprintf("server %s is named %s in the cloud, which is not the name of node %s", s.Server, s.Name, n.Name)
	case owner != "" && !s.hasServer(n):
		return fmt.Sprintf("node %s belongs to the Machine with UID %s, according to its %s", n.Name, owner, v1alpha1.AnnotationOwnedBy)
	case roleOf(n) != "":
		return fmt.Sprintf("node %s belongs to the control plane: it has %s", n.Name, roleOf(n))
	}
	return s.older(n)
}

// refusesOwned returns why a Node is not the Machine's although it has the Machine's owner label; an empty string when it is
// the Machine's. A kubelet can put that label on its own Node and chooses its own provider ID. So the provider ID must not
// name another server, and a Node with another name must be recorded in the Machine's status. A Node of the control plane
// must match in name, provider ID and label.
func (s Matcher) refusesOwned(n *corev1.Node) string {
	known := cmp.Or(s.Server, cloud.RecordedServer(s.Provider, s.Machine))
	ref := s.Machine.Status.NodeRef
	recorded := ref != nil && ref.Name == n.Name
	switch {
	case s.providerID(n) != "" && known != "" && s.Provider.ServerID(n.Spec.ProviderID) != known:
		return fmt.Sprintf("node %s has the provider ID %s, which is not that of server %s", n.Name, n.Spec.ProviderID, known)
	case !s.Named(n) && !recorded:
		return fmt.Sprintf("node %s names this Machine as its owner, but neither has the name of its server nor is recorded in its status", n.Name)
	case roleOf(n) != "" && (known == "" || s.providerID(n) == "" || !s.Named(n) || s.older(n) != ""):
		return fmt.Sprintf("node %s belongs to the control plane: it has %s", n.Name, roleOf(n))
	}
	return ""
}

// older returns a message when the Node existed before the Machine or its server, and otherwise an empty string. A server
// that an operator lets the Machine adopt may be older than the Machine, and so may its Node. Unknown times are not compared.
func (s Matcher) older(n *corev1.Node) string {
	registered := n.CreationTimestamp
	switch {
	case s.Adopted || registered.IsZero():
		return ""
	case registered.Before(&s.Machine.CreationTimestamp):
		return fmt.Sprintf("node %s existed before the Machine, and does not name it in its annotation %s", n.Name, v1alpha1.AnnotationOwnedBy)
	case !s.Created.IsZero() && !s.hasServer(n) && registered.Add(clockDifference).Before(s.Created):
		return fmt.Sprintf("node %s existed before server %s was created", n.Name, s.Server)
	}
	return ""
}

func ownerOf(n *corev1.Node) string { return v1alpha1.NodeOwner(n.Labels, n.Annotations) }

// roleOf returns the label or taint that makes the Node part of the control plane; an empty string when there is none.
func roleOf(n *corev1.Node) string { return v1alpha1.ControlPlaneRole(n.Labels, n.Spec.Taints) }
