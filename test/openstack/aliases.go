package openstack

import (
	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/gate"
	"github.com/drover-project/drover/test/openstack/internal/glance"
	"github.com/drover-project/drover/test/openstack/internal/inventory"
	"github.com/drover-project/drover/test/openstack/internal/keystone"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
	"github.com/drover-project/drover/test/openstack/internal/nova"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
)

// The types of the cloud's resources and settings, for packages that cannot import the internal ones.
type (
	// Call is one call to the cloud's API, as the cloud saw it.
	Call = gate.Call
	// Fault makes selected calls fail.
	Fault = gate.Fault
	// RateLimit is a token bucket on the cloud's clock. Calls beyond it are answered with 429 and Retry-After.
	RateLimit = gate.RateLimit
	// Pace is how fast the API carries out calls of one kind.
	Pace = gate.Pace
	// Quota is the limit of a project for each kind of resource. 0 means no limit; None means that no resource is allowed.
	Quota = quotas.Quota
	// Server is a server in the form in which the simulation shows it to Go code.
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
	// AppCredential is an application credential of a user for a project. User and Project are names.
	AppCredential = keystone.AppCredential
	// AccessRule permits calls of one method to one path for an application credential.
	AccessRule = keystone.AccessRule
	// ErrorForm is a form in which the compute and volume services of a cloud write errors.
	ErrorForm = api.ErrorForm
)

// The forms of errors. Only the first is OpenStack's own.
const (
	OpenStackErrors = api.OpenStackErrors
	ErrorWithCode   = api.ErrorWithCode
	ErrorMsgAndCode = api.ErrorMsgAndCode
)

// None is the quota that allows no resource of a kind.
const None = quotas.None

// ProxyPage returns a fault that answers a call as a proxy in front of OpenStack would: with a page of the proxy's own and the
// given status. The call is not carried out.
func ProxyPage(call string, status int) Fault { return gate.ProxyPage(call, status) }

// VersionDocument returns a fault that answers a request for Nova's version document, which lists the supported microversions, with
// something else. All other calls of Nova work. This happens behind gateways that only know the paths below the document.
func VersionDocument(status int, body string) Fault {
	return Fault{Service: api.ServiceCompute, Call: "GET /v2.1", Status: status, Body: body}
}
