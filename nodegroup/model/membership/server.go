package membership

import (
	"strings"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// identities parses provider IDs.
type identities struct{ cloud cloud.Provider }

// server returns the server ID in a provider ID; empty when there is no server ID in it.
func (i identities) server(providerID string) string { return string(i.cloud.ServerID(providerID)) }

// nodeServer returns the key that all Nodes on one server share. It is the server ID. If the provider ID contains no server ID, it
// is the whole provider ID in lower case, which matches no Machine.
func (i identities) nodeServer(providerID string) string {
	if server := i.server(providerID); server != "" {
		return server
	}
	return strings.ToLower(providerID)
}

// claimedServer returns the server ID in the Machine's spec.providerID; empty when that field names no server.
func (i identities) claimedServer(m *v1alpha1.Machine) string {
	return i.server(ptr.Deref(m.Spec.ProviderID, ""))
}

// sameClaims reports whether two versions of a Machine match the same Nodes, and have the same rank among several Machines that
// match one Node.
func (i identities) sameClaims(a, b *v1alpha1.Machine) bool {
	return i.claimedServer(a) == i.claimedServer(b) && nodeRefName(a) == nodeRefName(b) && a.ServerName() == b.ServerName() &&
		a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() && a.CreationTimestamp.Equal(&b.CreationTimestamp)
}

// contradicts reports whether a provider ID names a server other than the Machine's, or is not a provider ID of this cloud. One that
// machine-controller has made of the Machine's UID contradicts nothing.
func (i identities) contradicts(m *Member, providerID string) bool {
	if uid, ok := v1alpha1.MachineControllerUID(providerID); ok && uid == m.Machine.UID {
		return false
	}
	known := ptr.Deref(m.Machine.Spec.ProviderID, "")
	return providerID != "" && known != "" && i.nodeServer(known) != i.nodeServer(providerID)
}
