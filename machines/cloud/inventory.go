package cloud

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Inventory lists and deletes a cloud's resources of this cluster, whether or not a Machine exists for them.
type Inventory interface {
	// Tagged returns the resources with owner tags of this cluster, grouped by project, from the lists that all Machines share. It
	// makes no call. It covers the projects of all Machines and that of the configured cloud.
	Tagged(ctx context.Context) []Project

	// Collect deletes a resource whose Machine does not exist any more. It asks the cloud for the resource first, and deletes it
	// only if it still has both owner tags and no living server uses it. It returns nil when the resource is gone or its deletion
	// was accepted. Errors: Conflict when the resource was not deleted because it lacks an owner tag or a living server uses it.
	Collect(ctx context.Context, r Resource) error

	// IsServerGone reports whether the server of a provider ID is proven gone: it is missing from the complete lists of a project, and a
	// GET by its ID answers 404 there. place is [Remembered].Place of the server's Machine. When place is empty, all known projects must
	// prove the absence. IsServerGone returns an error, with the reason, when it cannot decide.
	IsServerGone(ctx context.Context, providerID, place string) (bool, error)
}

// Project holds the resources of this cluster in one project of a cloud.
type Project struct {
	// Place identifies the project. A restart of drover does not change it. The project's resources have the same Place.
	Place string
	// Name is the name of the project in messages.
	Name string
	// Unknown explains, for users, why the resources are not complete or not current, so that a missing resource may still exist. It
	// is empty when complete lists have been seen and the last list succeeded.
	Unknown   string
	Resources []Resource
	// Rest is true when this Project is not a single project, but represents all projects that drover may not know yet. Unknown then
	// has the reason.
	Rest bool
}

// ResourceKind is the kind of a [Resource], as messages write it.
type ResourceKind string

// The kinds of resources.
const (
	ResourceServer     ResourceKind = "server"
	ResourcePort       ResourceKind = "port"
	ResourceFloatingIP ResourceKind = "floating IP"
)

// Resource is a resource of a cloud that has both owner tags: the ID of this cluster and the UID of a Machine.
type Resource struct {
	// Place is the provider's own identifier of the project and region.
	Place string
	Kind  ResourceKind
	ID    string
	// Name is the name of a server. It is empty for resources that are not servers.
	Name string
	// Key identifies a server in comparisons. It is empty for resources that are not servers.
	Key ServerID
	// Machine is the UID of the Machine for which the resource was created, or which adopts it.
	Machine types.UID
	// UsedBy is the ID of the existing server that a port or floating IP is attached to; empty when it is attached to none.
	UsedBy string
	// Deleting is true when the cloud is deleting the resource.
	Deleting bool
}
