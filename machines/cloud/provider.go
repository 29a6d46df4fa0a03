package cloud

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// ServerID identifies a server. Only its provider interprets its content. Two equal IDs identify the same server, even when the
// provider IDs of that server are written in different ways. The empty ID stands for no server.
type ServerID string

// Placement is where a Machine asks the cloud for a server. Back-offs for lack of capacity belong to a placement, because a
// shortage concerns every Machine with the same placement. Only the provider interprets the two fields; other packages compare
// them, store them in a [v1alpha1.GroupBackoff], and show them.
type Placement struct {
	// Flavor is the flavor as the provider spec names it; empty when it names none.
	Flavor string
	// Zone is the zone as the provider spec names it; empty when the cloud chooses.
	Zone string
}

// Provider answers questions whose answers depend only on the content of Kubernetes objects. It makes no call and holds no state,
// and is safe for concurrent use.
type Provider interface {
	// ServerID returns the identity of the server that a provider ID of a Machine or Node names; empty when the ID is not one of
	// this provider. All spellings of a provider ID return the same ServerID.
	ServerID(providerID string) ServerID

	// Placement returns the placement of a Machine with that spec. known is false when the spec itself does not contain it: the
	// provider spec is stored elsewhere, as in a MachineClass, or cannot be read.
	Placement(spec *v1alpha1.MachineSpec) (p Placement, known bool)

	// IDPrefix returns the part of a Node's provider ID before the server's own part; empty when there is none, or when the
	// provider ID is not one of this provider.
	IDPrefix(providerID string) string

	// KubeletIDPrefix returns the prefix that a kubelet must write before the server's own part of its Node's provider ID. existing
	// counts the existing Nodes by their prefix, including those of other providers. Empty means that the kubelet sets no provider
	// ID, because the cloud-controller-manager does.
	KubeletIDPrefix(config *v1alpha1.ProviderConfig, existing map[string]int) string

	// Remembered parses the Machine's status.providerStatus.
	Remembered(m *v1alpha1.Machine) Remembered

	// MayBeLeft returns a text for users: what may still exist in the cloud when drover removes a Machine although the cloud did
	// not answer. A message of the Machine controller ends with this text.
	MayBeLeft(m *v1alpha1.Machine) string
}

// Remembered holds the parts of a Machine's status.providerStatus that other packages need.
type Remembered struct {
	// Server is true when a server was ever created for the Machine.
	Server bool
	// HostID is the last known [Server.HostID].
	HostID string
	// Place is where the Machine's resources are created, for [Inventory].IsServerGone; empty when that is not recorded.
	Place string
	// AtOnce and BeforeDeletion show whether certain fields have changed: callers compare the two strings and read nothing else
	// from them. AtOnce is for fields that only the status records. Its change must be written immediately. BeforeDeletion is for
	// fields that the cloud does not show any more once the server is gone. Its change must be written before the server is
	// deleted.
	AtOnce, BeforeDeletion string
}

// Record is what a provider has observed of a Machine's resources and stores in status.providerStatus.
type Record interface {
	// MergeInto returns status.providerStatus with the record merged into stored, which is nil when nothing is stored. It returns
	// stored itself when the record changes nothing.
	MergeInto(stored *runtime.RawExtension) *runtime.RawExtension
}
