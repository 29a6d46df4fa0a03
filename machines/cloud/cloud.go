// Package cloud defines the interfaces between drover and a cloud provider, and the types that pass through them. Values that
// belong to a provider, such as a ServerID or a Record, are opaque here: callers compare and store them and read nothing else from
// them. The package has no logic and depends on no provider.
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

// Cloud is implemented by each cloud provider.
//
// Every error that the interfaces of this package return is, or wraps, a *[fault.Error].
type Cloud interface {
	Provider
	Inventory

	// Instance reads the Machine's provider spec and credentials (Secret, Cluster, class, configured cloud) and returns the
	// Machine's view of the cloud. It makes no call to the cloud. Errors: Invalid for a spec that cannot be read, Auth for missing
	// credentials.
	//
	// For a Machine that is being deleted whose own spec or credentials cannot be used, the provider finds and deletes its
	// resources with other credentials for the same project. In this case Invalid also means that no known project has a resource
	// of the Machine.
	Instance(ctx context.Context, m *v1alpha1.Machine) (Instance, error)

	// Shape resolves the flavor, image and zone of a template into the capacity and topology of its future Node. The provider
	// caches the results. Only the first use of a flavor's or image's name costs a call.
	Shape(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) (Shape, error)

	// ServerOf returns the living server whose owner tag names the Machine, with its addresses in the cloud; nil when there is
	// none. It makes no call. It returns an error, with the reason, when the cloud's inventory cannot answer.
	ServerOf(ctx context.Context, m *v1alpha1.Machine) (*Server, error)

	// PlaceRecord returns the status.providerStatus for a new Machine of a template: the place where its resources will be created.
	// It makes no call. It returns nil when the place is not known yet, or when the provider records none.
	PlaceRecord(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension

	// Changes returns a channel with the key of each Machine whose server changed. The channel has one consumer and is never
	// closed.
	Changes() <-chan types.NamespacedName
}

// Lease reports whether this process can still be the only active one.
type Lease interface {
	// Fresh reports whether the lease was renewed recently enough that no other process can acquire it before a call that begins
	// now has ended. It makes no call.
	Fresh(now time.Time) bool
}

// Instance is the view of the cloud for one Machine. Every Prepare, Ensure and Delete step is idempotent, finds its resources again
// by their owner tag after a crash, and returns without waiting for the cloud to finish the operation.
type Instance interface {
	// Config returns the Machine's provider config. Fields that the Machine leaves empty have the values of its class, its Cluster
	// or the configured cloud.
	Config() *v1alpha1.ProviderConfig
	// Placement returns the flavor and zone that the Machine asks for; zero while the provider spec cannot be read.
	Placement() Placement
	// Warnings returns one sentence, for a condition, for each field of the provider spec that is accepted but has no effect. The
	// sentences are sorted.
	Warnings() []string

	// Observe returns what drover knows of the Machine's resources from the shared inventory. It makes at most one call: a GET by
	// ID, to prove that a server is gone or to learn why it is in ERROR.
	Observe(ctx context.Context) (Facts, error)
	// ObserveNow asks the cloud for the Machine's server, if one is known, and then returns the same facts as Observe. The server's
	// state is therefore the current one, not that of the last list. ObserveNow returns an error and no facts when the call fails.
	ObserveNow(ctx context.Context) (Facts, error)

	// Reserve resolves the names in the spec, reserves quota for what is missing, and returns why nothing can be created for the Machine
	// now: NotFound and Invalid for the spec, Transient while the outcome of an earlier create is not known, Quota when there is no room. It
	// creates nothing for the Machine. Prepare and EnsureServer ask the same again.
	Reserve(ctx context.Context) error
	// Prepare creates what must exist before the server, such as its ports, each with the Machine's owner tag. It does not create a
	// resource that already exists.
	Prepare(ctx context.Context) error
	// EnsureServer creates the server with the resources from Prepare, or adopts the server that has the Machine's owner tag.
	EnsureServer(ctx context.Context, userData []byte) (*Server, error)

	// StartServer asks the cloud to start the Machine's server, which is shut down, and returns without waiting. It returns nil
	// when the server is not shut down any more. Errors: Conflict, Invalid and Auth when the cloud refuses; NotFound when the cloud
	// shows no server.
	StartServer(ctx context.Context) error

	// DeleteServer asks the cloud to delete every server of this Machine. It makes no call while the back-off after an earlier
	// request lasts.
	DeleteServer(ctx context.Context) error
	// DeleteFailed deletes only the servers of the Machine whose State is ServerError, because another server of the Machine may
	// work.
	DeleteFailed(ctx context.Context) error
	// Release deletes what Prepare has created, and what belonged to the server and still exists after it. Callers call it once
	// Observe shows no server, and repeat it until Released.Done is true.
	Release(ctx context.Context) (Released, error)

	// ConsoleOutput returns the last bytes of the server's console.
	ConsoleOutput(ctx context.Context, bytes int) (string, error)
}

// Released is the result of Instance.Release.
type Released struct {
	// Done is true when no resource of the Machine is left.
	Done bool
	// Waiting describes, for users, what is still being deleted while Done is false.
	Waiting string
	// Left has one sentence for each resource that still exists because drover did not delete it: the Machine's status or
	// annotations name the resource, but the cloud does not show that it belongs to the Machine.
	Left []string
}

// Facts holds what is known of a Machine's resources.
type Facts struct {
	// Synced is true once the inventory has seen a complete list since it started. While it is false, a resource that is not known may still
	// exist, and no resource may be created.
	Synced bool
	// Server is the server with the Machine's owner tag, whatever spec.providerID says; nil when no such server is known.
	Server *Server
	// Foreign explains, for users, that the server which spec.providerID names exists and has the owner tag of another owner.
	// drover does not touch that server. It is empty when the Machine names no server, or its own.
	Foreign string
	// Unknown explains, for users, why nothing is known of the Machine's server: the Machine's credentials are for another project or region
	// than that of the server, or no record shows where the server was created. While it is set, a server that is not known may still exist,
	// and no resource is created.
	Unknown string
	// Outdated explains, for users, why the provider's lists fail. It is set when they have failed for some minutes, because the
	// facts are then out of date. It is empty while the lists are current.
	Outdated string
	// Had is the ID of the Machine's former server, once the cloud has shown that the server belonged to the Machine and is gone.
	Had ServerID
	// Duplicates are other servers with the Machine's owner tag. Such a server exists when a create request succeeded although its
	// answer was lost.
	Duplicates []*Server
	// Gone is true when the server that the Machine names is proven gone: a list showed it as DELETED, or a GET by its ID answered
	// 404, in the project and region in which it was created. Absence from a list does not prove it.
	Gone bool
	// Leftovers is true when resources of this Machine other than its server are known to exist.
	Leftovers bool
	// Held is a sentence for users, set while the Machine has lost its server, is not being deleted, and so many Machines of the
	// project have lost their servers at once that the cloud's answers alone do not prove the loss. Empty otherwise.
	Held string
	// Place is where the Machine's resources are created. It must be recorded before the first resource is created. It is nil when
	// there is no place to record, or when Synced is false and the place is not known yet.
	Place Record
	// QuotaRaised is when the cloud last had free quota again after the quota had been exhausted. From then on, the back-offs of
	// earlier failures of class Quota do not apply any more. QuotaRaised is zero when this has not happened.
	QuotaRaised time.Time
}

// ServerState is the state of a server, in the terms of drover.
type ServerState string

// The states of a server.
const (
	ServerBuilding ServerState = "Building"
	ServerActive   ServerState = "Active"
	ServerError    ServerState = "Error"
	ServerDeleting ServerState = "Deleting"
	// ServerStopped means that the server is shut down, so that nothing runs on it or writes to its disks, and that no operation on
	// it is in progress. It can be started.
	ServerStopped ServerState = "Stopped"
	// ServerStarting means that the server was shut down and is starting.
	ServerStarting ServerState = "Starting"
	// ServerOther represents PAUSED, RESIZE, UNKNOWN and the like: the server exists, and it is not known whether it runs.
	ServerOther ServerState = "Other"
)

// Server is a server of the cloud, with the facts that the Machine controller needs.
type Server struct {
	// ID is the server's ID as the cloud writes it, for users. Key is used for look-ups and comparisons.
	ID    string
	Key   ServerID
	Name  string
	State ServerState
	// Status is the cloud's own name of the state, such as ACTIVE.
	Status string
	// Busy is the cloud's own name of an operation that is in progress on the server, such as a resize, migration or rescue; empty
	// when there is none. While it is set, State is ServerActive or ServerOther.
	Busy string
	// Fault is the reason for State ServerError; nil in other states.
	Fault *fault.Error
	// ProviderID is the provider ID of the server's Node.
	ProviderID string
	// Owner is the UID of the Machine in the server's owner tag; empty when the server has no owner tag.
	Owner types.UID
	// Configured is true when the server is in the project of the configured cloud, whose endpoint an operator has set.
	Configured bool
	// Adopted is true when an operator allows the Machine to take over this server and its Node. The server may be older than the
	// Machine.
	Adopted   bool
	Addresses []corev1.NodeAddress
	// Created is when the server was created, on drover's clock. The error is a minute or less, unless the cloud does not show its clock.
	Created time.Time
	// Seen is since when drover has been able to observe the server, on drover's clock: since this process knows the server, or
	// since the cloud's lists succeed again after they had failed for some minutes. It is zero when that is not known.
	Seen time.Time
	// HostID identifies the physical host within the project; empty until it is known.
	HostID string
	// Record must be stored in the Machine's status while the server lives.
	Record Record
}

// Shape is the capacity and topology that a template resolves to.
type Shape struct {
	Flavor string
	CPU    resource.Quantity
	Memory resource.Quantity
	Disk   resource.Quantity
	// GPUs is the number of GPUs of a server.
	GPUs int64
	Zone string
	// ZoneLabels are the keys of the labels that this cloud's drivers set on a Node with the zone as value, in addition to those of
	// Kubernetes.
	ZoneLabels   []string
	Region       string
	Architecture string
}
