package cloud

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Inventory is what a cloud has of this cluster, whether or not a Machine exists for it.
type Inventory interface {
	// Tagged returns what is marked as made for Machines of this cluster, project by project, as the lists that all Machines
	// share have it. It makes no call of its own. The projects are those in which Machines live, and that of the configured cloud.
	Tagged(ctx context.Context) []Project

	// Collect deletes a resource whose Machine does not exist any more. It asks the cloud for the resource first, and leaves it
	// alone unless it still has both marks and no living server uses it. It returns nil when the resource is gone or its deletion
	// was accepted. Errors: Conflict when the resource was left alone.
	Collect(ctx context.Context, r Resource) error

	// IsServerGone reports whether the server that a provider ID names is proven gone: the complete lists of these projects lack it,
	// and a GET by its ID answers 404 in each of them. places holds the Place of each [Project] in which the server was seen; when it
	// is empty, all known projects are asked. It returns an error when this cannot be decided, with the reason.
	IsServerGone(ctx context.Context, providerID string, places []string) (bool, error)
}

// Project is what one project of a cloud has of this cluster.
type Project struct {
	// Cloud and Place are those of its resources: see [Resource]. Together they identify the project, for every process.
	Cloud, Place string
	// Name is for people.
	Name string
	// Unknown says, for people, why the resources are not complete or not current, so that nothing may be concluded from them.
	// Empty: complete lists have been seen, and the last list succeeded.
	Unknown string
	// Held says, for people, what the mass-deletion guard of the project holds: see [Facts].Held. Empty: nothing.
	Held      string
	Resources []Resource
	// Rest: this is not one project. It stands for those that may not be known yet, for the reason in Unknown.
	Rest bool
}

// ResourceKind is the kind of a [Resource], in words for people.
type ResourceKind string

// The kinds of resources.
const (
	ResourceServer     ResourceKind = "server"
	ResourcePort       ResourceKind = "port"
	ResourceFloatingIP ResourceKind = "floating IP"
)

// Resource is something in a cloud that has both marks: the ID of this cluster and the UID of a Machine.
type Resource struct {
	// Cloud is the cloudProvider under which provider specs name the cloud; only who speaks for several clouds sets it. Place is
	// the cloud's own: where the resource is.
	Cloud, Place string
	Kind         ResourceKind
	ID           string
	// Name is the name of a server; empty for others.
	Name string
	// Key is what a server is compared by; empty for others.
	Key ServerID
	// Machine is the UID of the Machine that it was made for, or that adopts it.
	Machine types.UID
	// UsedBy is the ID of the server that a port or floating IP is on, while that server exists as far as is known. Empty: none.
	UsedBy string
	// Seen is when this process saw it first. Created is when the cloud says that it was created; zero: the cloud does not say.
	Seen, Created time.Time
}
