package cloud

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// ServerID identifies a server. Only its provider knows what it is made of; two that are equal are the same server, however
// their provider IDs are written. The empty one is no server.
type ServerID string

// Placement is what a Machine asks of a cloud, as far as a shortage of it concerns other Machines. Only the provider knows
// what the two texts mean. They are compared, stored in a [v1alpha1.GroupBackoff], and shown.
type Placement struct {
	// Flavor as the provider spec names it; empty when it names none.
	Flavor string
	// Zone as the provider spec names it; empty when the cloud chooses.
	Zone string
}

// Provider answers what follows from the texts of objects alone. It makes no call and holds no state; any number of
// goroutines may use it.
type Provider interface {
	// ServerID returns the server that a provider ID of a Machine or Node names; empty when it names none of this provider.
	// All spellings of a provider ID name the same server.
	ServerID(providerID string) ServerID

	// Placement returns what a Machine of that spec asks for, as far as its own provider spec shows it. known is false when the
	// spec stands elsewhere, as in a MachineClass, or cannot be read.
	Placement(spec *v1alpha1.MachineSpec) (p Placement, known bool)

	// IDPrefix returns what stands before the server's own part in a Node's provider ID; empty when nothing does, or when it is
	// not a provider ID of this provider.
	IDPrefix(providerID string) string

	// KubeletIDPrefix returns what a kubelet is to write before its server's own part in the provider ID of its Node. existing
	// has the prefixes of the Nodes that there are, each with their number; it may have those of other providers. Empty: the
	// kubelet writes no provider ID, and the cloud-controller-manager does.
	KubeletIDPrefix(config *v1alpha1.ProviderConfig, existing map[string]int) string

	// Remembered reads the Machine's status.providerStatus.
	Remembered(m *v1alpha1.Machine) Remembered

	// MayBeLeft names, for people, what the cloud may still hold of a Machine that is let go although the cloud has not said
	// what there is. It ends the sentence "let go without the cloud's word: …".
	MayBeLeft(m *v1alpha1.Machine) string
}

// Remembered is what others than the provider need to know of a Machine's status.providerStatus.
type Remembered struct {
	// Server reports that a server was made once.
	Server bool
	// HostID is the last known [Server.HostID].
	HostID string
	// AtOnce is what only the record knows: a change of it must be written at once. BeforeDeletion is what the cloud does not
	// show any more once the server is gone: a change of it must be written before the server is deleted. Both can be compared
	// and have no other meaning.
	AtOnce, BeforeDeletion string
}

// Record is what a provider has seen of a Machine's resources and wants remembered in status.providerStatus.
type Record interface {
	// Over returns status.providerStatus with what the record says, given what is stored (nil: nothing). It returns stored
	// itself when that says all of it already.
	Over(stored *runtime.RawExtension) *runtime.RawExtension
}
