package nova

import (
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/cinder"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
)

// Neighbours are the parts of the other services that Nova needs, and Nova's own inventory.
type Neighbours struct {
	Quotas    *quotas.Quotas
	Inventory *inventory.Service
	Network   network
	Ports     portMaker
	Volumes   volumes
	Images    images
	Projects  projects
}

// network is the part of Neutron that Nova reads.
type network interface {
	// Down reports whether the service is stopped, so that no client can reach it.
	Down() bool
	// Port returns a port by its ID.
	Port(id string) (*neutron.Port, bool)
	// VisibleNetwork returns a network by its ID when the project of a request sees it.
	VisibleNetwork(q *api.Request, id string) (*neutron.Net, bool)
	// InternalNetworks returns the networks that a project sees and that are not external.
	InternalNetworks(project string) []*neutron.Net
	// NetworkName returns the name of an existing network.
	NetworkName(id string) string
	// IsExternal reports whether floating IPs can come from the network.
	IsExternal(id string) bool
	// AddressTaken reports whether a port of a network has an address.
	AddressTaken(n *neutron.Net, address string) bool
	// FloatingAddresses returns the floating addresses of a port.
	FloatingAddresses(portID string) []neutron.FixedIP
	// GroupNames returns the names of the security groups that a port is in.
	GroupNames(p *neutron.Port) []string
	// GroupsNamed returns a project's security groups with the name, or the security group with the
	// ID.
	GroupsNamed(project, nameOrID string) []*neutron.SecurityGroup
	// DefaultGroup returns the security group that every project has.
	DefaultGroup(project string, now time.Time) *neutron.SecurityGroup
}

// portMaker is the part of Neutron with which Nova itself creates and deletes ports.
type portMaker interface {
	// HasRoom reports whether the quota allows a project the given number of additional ports.
	HasRoom(project string, more int) bool
	// ServerPort creates a port for a server.
	ServerPort(project, network, fixed string, groups []string, at time.Time) (*neutron.Port, api.Reply)
	// DropPort deletes a port. Its floating IP stays, without the port.
	DropPort(p *neutron.Port)
}

// volumes is the part of Cinder that Nova needs.
type volumes interface {
	// HasType reports whether there is a volume type with the name or ID.
	HasType(name string) bool
	// Volume returns a volume by its ID.
	Volume(id string) (*cinder.Volume, bool)
	// Attach attaches a volume to a server. When that fails it returns the text of the server's fault.
	Attach(server, project string, d cinder.Device, at time.Time) (cinder.Attachment, string)
	// Release deletes the volumes that are deleted with their server, and detaches the others. If keep is true, it detaches all
	// volumes.
	Release(attachments []cinder.Attachment, keep bool)
}

// images is the part of Glance that Nova needs.
type images interface {
	// Image returns an image by its ID.
	Image(id string) (*glance.Image, bool)
}

// projects is the part of Keystone that Nova needs.
type projects interface {
	// ProjectName returns the name of a project, or its ID when the project is not known.
	ProjectName(id string) string
}
