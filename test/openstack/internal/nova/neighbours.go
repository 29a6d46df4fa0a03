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

// Neighbours are the other services of the cloud, as far as Nova needs them, and its own inventory.
type Neighbours struct {
	Quotas    *quotas.Quotas
	Inventory *inventory.Service
	Network   network
	Ports     portMaker
	Volumes   volumes
	Images    images
	Projects  projects
}

// network is what Nova asks Neutron for.
type network interface {
	// down reports whether nobody reaches the service.
	Down() bool
	// port returns a port by its ID.
	Port(id string) (*neutron.Port, bool)
	// visibleNetwork returns a network by its ID when the project of a request sees it.
	VisibleNetwork(q *api.Request, id string) (*neutron.Net, bool)
	// internalNetworks returns the networks that a project sees and that are not external.
	InternalNetworks(project string) []*neutron.Net
	// networkName returns the name of a network that there is.
	NetworkName(id string) string
	// isExternal reports whether a network is one that floating IPs come from.
	IsExternal(id string) bool
	// addressTaken reports whether a port of a network has an address.
	AddressTaken(n *neutron.Net, address string) bool
	// floatingAddresses returns the floating addresses of a port.
	FloatingAddresses(portID string) []neutron.FixedIP
	// groupNames returns the names of the security groups that a port is in.
	GroupNames(p *neutron.Port) []string
	// groupsNamed returns a project's security groups of a name, or the one with that ID.
	GroupsNamed(project, nameOrID string) []*neutron.SecurityGroup
	// defaultGroup returns the security group that every project has.
	DefaultGroup(project string, now time.Time) *neutron.SecurityGroup
}

// portMaker is Neutron where Nova makes and deletes ports itself.
type portMaker interface {
	// hasRoom reports whether a project may have so many more ports.
	HasRoom(project string, more int) bool
	// serverPort makes a port for a server.
	ServerPort(project, network, fixed string, groups []string, at time.Time) (*neutron.Port, api.Reply)
	// dropPort removes a port; its floating IP stays, without it.
	DropPort(p *neutron.Port)
}

// volumes is what Nova asks Cinder for.
type volumes interface {
	// hasType reports whether there is a volume type of that name or ID.
	HasType(name string) bool
	// volume returns a volume by its ID.
	Volume(id string) (*cinder.Volume, bool)
	// attach attaches a volume to a server. When that fails it returns the text of the server's fault.
	Attach(server, project string, d cinder.Device, at time.Time) (cinder.Attachment, string)
	// release deletes the volumes that go with their server and frees the others.
	Release(attachments []cinder.Attachment)
}

// images is what Nova asks Glance for.
type images interface {
	// image returns an image by its ID.
	Image(id string) (*glance.Image, bool)
}

// projects is what Nova asks Keystone for.
type projects interface {
	// projectName returns the name of a project, or its ID when it is not known.
	ProjectName(id string) string
}
