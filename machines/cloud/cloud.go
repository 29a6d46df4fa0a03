// Package cloud is the seam between the Machine controller and a provider: the interface that a cloud must satisfy, and
// the facts that pass through it. It holds no logic.
package cloud

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Cloud gives each Machine its cloud side.
//
// Every error of this package's interfaces is, or wraps, a *[fault.Error].
type Cloud interface {
	// Instance reads the Machine's provider spec and credentials (Secret, Cluster, class, configured cloud) and gives
	// its cloud side. It makes no call to the cloud. Errors: Invalid for a spec that cannot be read, Auth for
	// credentials that are missing.
	//
	// For a Machine that is being deleted, resources that were made for it are found and deleted with other credentials
	// for the same project when its own spec or credentials cannot be used. Then Invalid means, too, that no known project
	// has anything of the Machine.
	Instance(ctx context.Context, m *v1alpha1.Machine) (Instance, error)

	// Shape resolves the flavor, image and zone that a template names into what the node will have. Served from the
	// catalog's cache; the first use of a name costs a call.
	Shape(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) (Shape, error)

	// Changes gives the key of each Machine whose server changed. One consumer; never closed.
	Changes() <-chan types.NamespacedName
}

// Lease says whether this process may still be the only one that acts.
type Lease interface {
	// Fresh tells whether the lease was renewed so lately that nobody else can hold it before a call that begins now has
	// ended. It makes no call itself.
	Fresh(now time.Time) bool
}

// Instance is one Machine's cloud side. Every Ensure and Delete step is idempotent, found again by the owner mark after
// a crash, and returns without waiting for the cloud to finish what it was asked for.
type Instance interface {
	// Config is the provider config after class, Cluster and configured cloud have filled what the Machine left empty.
	Config() *v1alpha1.ProviderConfig
	// Place says what a shortage would be about.
	Place() Place
	// Warnings say what of the provider spec is accepted and has no effect: one sentence each, sorted, for a condition.
	Warnings() []string

	// Observe returns what is known of the Machine's resources, from the shared inventory. It makes at most one call, a
	// GET by ID, and only to prove that a server is gone or to learn why it is in ERROR.
	Observe(ctx context.Context) (Facts, error)

	// EnsurePorts makes one marked port per network.
	EnsurePorts(ctx context.Context) error
	// EnsureFloatingIP makes a marked floating IP on the first port, when the spec asks for one.
	EnsureFloatingIP(ctx context.Context) error
	// EnsureServer makes the server with the ports made before, or adopts the one that bears the Machine's mark.
	EnsureServer(ctx context.Context, userData []byte) (*Server, error)

	// DeleteServer asks for every server of this Machine to be deleted; asking again within the back-off is no call.
	DeleteServer(ctx context.Context) error
	// DeleteFailed is DeleteServer for those servers of the Machine only whose State is ServerError: another may work.
	DeleteFailed(ctx context.Context) error
	// Release deletes floating IP, ports and recorded volumes. Called once Observe shows no server, and again until it is
	// done.
	Release(ctx context.Context) (Released, error)

	// ConsoleOutput gives the last bytes of the server's console.
	ConsoleOutput(ctx context.Context, bytes int) (string, error)
}

// Released is what came of the release of a Machine's resources.
type Released struct {
	// Done: nothing that belongs to the Machine is left.
	Done bool
	// Left names what the Machine names as its own and the cloud does not show to be: it exists and was left alone. One
	// sentence each.
	Left []string
}

// Facts are what is known of a Machine's resources.
type Facts struct {
	// Synced: the inventory has seen a complete list since it started. While false, nothing may be concluded from an
	// absence and nothing may be made.
	Synced bool
	// Server is the Machine's server: its own mark in the cloud says so, whatever the Machine says. nil when none is known.
	Server *Server
	// Foreign says, for people, that the server which the Machine names exists and belongs to somebody else. That one is
	// left alone. Empty: it names none, or its own.
	Foreign string
	// Unknown says, for people, why nothing is known of the Machine's server: its credentials are for another project or
	// region than the one that its server was made in, or no record says where that was. Nothing is concluded from an
	// absence then, and nothing made. Empty otherwise.
	Unknown string
	// Had is the ID of the server of the Machine that is gone, when the cloud has shown that it was the Machine's.
	Had string
	// Twins are other servers that bear the Machine's mark: an order with an unknown outcome has been carried out after all.
	Twins []*Server
	// Gone: the server that the Machine names was shown DELETED, or a GET by its ID answered 404, in the project and region
	// that it was made in. Absence alone is no proof.
	Gone bool
	// Leftovers: ports, floating IPs or volumes of this Machine are known to exist.
	Leftovers bool
	// Held: so many servers of the project are gone at once that nothing is to be cleaned up before a person has said so
	// (design §2.4); a sentence for people. While it is set, Gone stays false for the servers in question. Empty: all is
	// well.
	Held string
	// ProjectID and Region are where the Machine's resources are made, to be kept as [ProviderStatus] before the first one is.
	// Empty while Synced is false because nothing is known of the project yet.
	ProjectID, Region string
	// QuotaRaised is when there was last seen to be room again after a quota had been hit: a failure of class Quota from
	// before is no reason to wait any longer. Zero: never.
	QuotaRaised time.Time
}

// ProviderStatus is what a provider wants remembered in a Machine's status.providerStatus while its server lives; it
// reads it again from there when the server goes.
type ProviderStatus struct {
	// VolumeIDs are those of [Server.VolumeIDs]; a volume that no status names is never touched.
	VolumeIDs []string `json:"volumeIDs,omitempty"`
	// ProjectID and Region are where the Machine's resources are, or are to be made: they are recorded before the first one is
	// made. Only there an absence can prove that a resource is gone.
	ProjectID string `json:"projectID,omitempty"`
	Region    string `json:"region,omitempty"`
}

// ServerState is where a server is in its life.
type ServerState string

// The states.
const (
	ServerBuilding ServerState = "Building"
	ServerActive   ServerState = "Active"
	ServerError    ServerState = "Error"
	ServerDeleting ServerState = "Deleting"
	// ServerOther: SHUTOFF, PAUSED, UNKNOWN and the like: it exists, and that is all that is known.
	ServerOther ServerState = "Other"
)

// Server is a cloud server as the Machine controller needs to know it.
type Server struct {
	ID    string
	Name  string
	State ServerState
	// Status is the cloud's own word.
	Status string
	// Fault says why State is ServerError; nil otherwise.
	Fault *fault.Error
	// ProviderID is the identity that the Node will bear.
	ProviderID string
	// Owner is the UID of the Machine whose mark it bears; empty: it bears none.
	Owner types.UID
	// Configured: the server is in the project of the configured cloud, which an operator vouches for.
	Configured bool
	// Adopted: an operator lets the Machine take over this server, which may be older than the Machine, with its Node.
	Adopted   bool
	Addresses []corev1.NodeAddress
	Created   time.Time
	// Zone is the availability zone that the server is in; empty until known.
	Zone string
	// HostID identifies the physical host within the project; empty until known.
	HostID string
	// PortIDs are those of the Machine's ports, in the order of the networks. FloatingIPID is that of its floating IP; empty
	// when there is none, or it is not known yet.
	PortIDs      []string
	FloatingIPID string
	// VolumeIDs are the volumes that end with the server (its boot volume), sorted; to be kept in the Machine's
	// status.providerStatus as [ProviderStatus], so that Release can see them gone.
	VolumeIDs []string
	// ProjectID and Region are where the server is; to be kept like VolumeIDs.
	ProjectID string
	Region    string
}

// Shape is what a template resolves to.
type Shape struct {
	Flavor       string
	CPU          resource.Quantity
	Memory       resource.Quantity
	Disk         resource.Quantity
	ExtraSpecs   map[string]string
	Zone         string
	Region       string
	Architecture string
}
