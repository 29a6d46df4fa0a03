// Package cloud is the seam between drover and a provider: the interfaces that a cloud must satisfy, and what passes through
// them. What is a provider's own is opaque here: it can be compared and stored, and has no other meaning to anybody else. The
// package holds no logic and knows no provider.
package cloud

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Cloud returns the cloud side of each Machine.
//
// Every error of this package's interfaces is, or wraps, a *[fault.Error].
type Cloud interface {
	Provider
	Inventory

	// Instance reads the Machine's provider spec and credentials (Secret, Cluster, class, configured cloud) and returns
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

	// ServerOf returns the living server whose own owner tag names the Machine, with the addresses that the cloud has for it;
	// nil when there is none. It makes no call. The error says why the cloud's inventory cannot say.
	ServerOf(ctx context.Context, m *v1alpha1.Machine) (*Server, error)

	// PlaceRecord returns what status.providerStatus of a new Machine of a template holds: where its resources will be made. It
	// makes no call; nil when that is not known yet, or there is nothing to remember.
	PlaceRecord(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension

	// Changes returns a channel with the key of each Machine whose server changed. One consumer; never closed.
	Changes() <-chan types.NamespacedName
}

// Lease reports whether this process may still be the only one that acts.
type Lease interface {
	// Fresh reports whether the lease was renewed so lately that no other process can hold it before a call that begins now has
	// ended. It makes no call itself.
	Fresh(now time.Time) bool
}

// Instance is one Machine's cloud side. Every Ensure and Delete step is idempotent, found again by the owner mark after
// a crash, and returns without waiting for the cloud to finish what it was asked for.
type Instance interface {
	// Config is the provider config after class, Cluster and configured cloud have filled what the Machine left empty.
	Config() *v1alpha1.ProviderConfig
	// Placement returns what the Machine asks of the cloud, as far as a shortage of it concerns others; zero while the provider
	// spec cannot be read.
	Placement() Placement
	// Warnings say what of the provider spec is accepted and has no effect: one sentence each, sorted, for a condition.
	Warnings() []string

	// Observe returns what is known of the Machine's resources, from the shared inventory. It makes at most one call, a
	// GET by ID, and only to prove that a server is gone or to learn why it is in ERROR.
	Observe(ctx context.Context) (Facts, error)
	// ObserveNow is Observe after one call that asks the cloud for the Machine's server, if one is known: the server's state is
	// the cloud's word of this moment, and no list's. It returns no facts when that call gets no answer.
	ObserveNow(ctx context.Context) (Facts, error)

	// Prepare creates what must exist before the server, such as its ports, each with the owner tag of the Machine. What exists
	// already is not created again.
	Prepare(ctx context.Context) error
	// EnsureServer creates the server with what Prepare has made, or adopts the one that has the Machine's owner tag.
	EnsureServer(ctx context.Context, userData []byte) (*Server, error)

	// StartServer asks for the Machine's server, which is shut down, to be started, and returns without waiting for that. A server
	// that is not shut down any more is no error. Conflict, Invalid and Auth: the cloud refuses. NotFound: there is no
	// server, as far as the cloud shows one.
	StartServer(ctx context.Context) error

	// DeleteServer asks for every server of this Machine to be deleted; asking again within the back-off is no call.
	DeleteServer(ctx context.Context) error
	// DeleteFailed is DeleteServer for those servers of the Machine only whose State is ServerError: another may work.
	DeleteFailed(ctx context.Context) error
	// Release deletes what Prepare has made, and what belonged to the server and has outlived it. It is called once Observe
	// shows no server, and again until it is done.
	Release(ctx context.Context) (Released, error)

	// ConsoleOutput returns the last bytes of the server's console.
	ConsoleOutput(ctx context.Context, bytes int) (string, error)
}

// Released is what came of the release of a Machine's resources.
type Released struct {
	// Done: nothing that belongs to the Machine is left.
	Done bool
	// Waiting says, for people, what is still being deleted while Done is false.
	Waiting string
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
	// Outdated says, for people, why the provider has not been able to look for some minutes: what is known is older than that.
	// Empty: it can.
	Outdated string
	// Had is the server of the Machine that is gone, when the cloud has shown that it was the Machine's.
	Had ServerID
	// Duplicates are other servers with the Machine's owner tag: an order with an unknown outcome has been carried out after all.
	Duplicates []*Server
	// Gone: the server that the Machine names was shown DELETED, or a GET by its ID answered 404, in the project and region
	// that it was made in. Absence alone is no proof.
	Gone bool
	// Leftovers: resources of this Machine other than its server are known to exist.
	Leftovers bool
	// Held: so many servers of the project are gone at once that nothing is to be cleaned up before a person has said so
	// ; a sentence for people. While it is set, Gone stays false for the servers in question. Empty: all is
	// well.
	Held string
	// Place is where the Machine's resources are made, to be remembered before the first one is. nil: there is nothing to
	// remember, or, while Synced is false, it is not known yet.
	Place Record
	// QuotaRaised is when there was last seen to be room again after a quota had been hit: a failure of class Quota from
	// before is no reason to wait any longer. Zero: never.
	QuotaRaised time.Time
}

// ServerState is where a server is in its life.
type ServerState string

// The states.
const (
	ServerBuilding ServerState = "Building"
	ServerActive   ServerState = "Active"
	ServerError    ServerState = "Error"
	ServerDeleting ServerState = "Deleting"
	// ServerStopped: the server is shut down, so that nothing runs on it and nothing writes to its disks, and nobody is doing
	// anything with it. It can be started.
	ServerStopped ServerState = "Stopped"
	// ServerStarting: it was shut down, and is being started.
	ServerStarting ServerState = "Starting"
	// ServerOther: PAUSED, RESIZE, UNKNOWN and the like: it exists, and whether it runs is not known.
	ServerOther ServerState = "Other"
)

// Server is a cloud server as the Machine controller needs to know it.
type Server struct {
	// ID is the server's ID as the cloud writes it, for people. Key is what it is found and compared by.
	ID    string
	Key   ServerID
	Name  string
	State ServerState
	// Status is the cloud's own word.
	Status string
	// Busy is what somebody is doing with the server, such as resizing, migrating or rescuing it, in the cloud's own word; empty
	// when nobody is. State is ServerActive or ServerOther then.
	Busy string
	// Fault says why State is ServerError; nil otherwise.
	Fault *fault.Error
	// ProviderID is that of the server's Node.
	ProviderID string
	// Owner is the UID of the Machine whose owner tag the server has; empty: it has none.
	Owner types.UID
	// Configured: the server is in the project of the configured cloud, which an operator vouches for.
	Configured bool
	// Adopted: an operator lets the Machine take over this server, which may be older than the Machine, with its Node.
	Adopted   bool
	Addresses []corev1.NodeAddress
	Created   time.Time
	// HostID identifies the physical host within the project; empty until known.
	HostID string
	// Record is to be remembered while the server lives.
	Record Record
}

// Shape is what a template resolves to.
type Shape struct {
	Flavor string
	CPU    resource.Quantity
	Memory resource.Quantity
	Disk   resource.Quantity
	// GPUs is how many of them a server has.
	GPUs int64
	Zone string
	// ZoneLabels are the keys of the labels that drivers of this cloud put on its nodes with the zone as value, beside those of
	// Kubernetes.
	ZoneLabels   []string
	Region       string
	Architecture string
}
