package nova

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/neutron"
)

// holderOf returns the server that a port is bound to, or nil when the port is not bound to a server. It also reports whether
// the port is bound to anything other than the server s.
func (svc *Service) holderOf(p *neutron.Port, s *server) (*server, bool) {
	holder, _ := svc.servers.Get(p.DeviceID)
	return holder, p.DeviceID != "" && p.DeviceID != s.id
}

// contend decides what happens when two servers are built on the same port. The port was free when Nova accepted both create
// requests, and has been bound to the first server meanwhile. The server to which the port is bound afterwards fails when it
// would become ACTIVE, and Nova's clean-up unbinds the port. The other server becomes, or stays, ACTIVE without an interface.
// contend reports whether the port must be bound to the second server. If the second server fails immediately, problem is the
// text of its fault.
func (svc *Service) contend(p *neutron.Port, first, second *server) (takes bool, problem string) {
	switch {
	case first == nil:
		return false, fmt.Sprintf("Build of instance %s aborted: Port %s is still in use.", second.id, p.ID)
	case svc.cfg.FirstOfTwoFails && first.state == building:
		first.contested = true
		return false, ""
	}
	second.contested = true
	return true, ""
}

// failOnContestedPort fails a server when another server was also created on its port.
func (svc *Service) failOnContestedPort(s *server, at time.Time) {
	svc.fail(s, at, fmt.Sprintf("Build of instance %s aborted: Failed to allocate the network(s), not rescheduling.", s.id))
}

// boundPorts returns those of a server's ports that are bound to the server now.
func (svc *Service) boundPorts(s *server) []*neutron.Port {
	var bound []*neutron.Port
	for _, n := range s.nics {
		if p, known := svc.Network.Port(n.port); known && p.DeviceID == s.id {
			bound = append(bound, p)
		}
	}
	return bound
}
