package openstack

import (
	"github.com/drover-project/drover/test/openstack/internal/gate"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/keystone"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
	"github.com/drover-project/drover/test/openstack/internal/nova"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
)

// The contents of a cloud, and how tests see them.
type (
	// Call is one call to the cloud's API, as the cloud saw it.
	Call = gate.Call
	// Fault makes chosen calls fail.
	Fault = gate.Fault
	// RateLimit is a token bucket on the cloud's clock. Calls beyond it are answered with 429 and Retry-After.
	RateLimit = gate.RateLimit
	// Pace is how fast the API carries out one kind of call.
	Pace = gate.Pace
	// Quota is the limit of a project for each kind of resource. 0 means without a limit; None means that none is allowed.
	Quota = quotas.Quota
	// Server is a server as the cloud's user sees it from within Go.
	Server = nova.Server
	// Host is a compute host.
	Host = inventory.Host
	// Flavor is a server size.
	Flavor = inventory.Flavor
	// Image is an operating system image.
	Image = glance.Image
	// Network is a network.
	Network = neutron.Network
	// Subnet is a subnet of a network.
	Subnet = neutron.Subnet
	// User is a user who may sign in.
	User = keystone.User
	// AppCredential is an application credential of a user for a project, both named.
	AppCredential = keystone.AppCredential
)

// None is the quota that allows no resource of a kind.
const None = quotas.None

// ProxyPage returns a fault with which a proxy, and not OpenStack, answers a call: a page of its own with that status. The call
// is not carried out.
func ProxyPage(call string, status int) Fault { return gate.ProxyPage(call, status) }
