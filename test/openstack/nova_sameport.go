package openstack

import (
	"fmt"
	"time"
)

// holderOf returns the server that a port is bound to, nil when another kind of device has it. It reports whether that is
// anything but s.
func (svc *nova) holderOf(p *port, s *server) (*server, bool) {
	holder, _ := svc.servers.get(p.deviceID)
	return holder, p.deviceID != "" && p.deviceID != s.id
}

// contend is what happens when a second server is built on a port that was free when Nova accepted its creation, and that the
// first server has by now. The port is bound to one of the two, and that one fails when it should become ACTIVE. Nova's clean-up
// then unbinds the port. The other server becomes, or stays, ACTIVE without an interface. contend reports whether the port is
// to be bound to the second server; problem is the second server's fault when it fails at once.
func (svc *nova) contend(p *port, first, second *server) (takes bool, problem string) {
	switch {
	case first == nil:
		return false, fmt.Sprintf("Build of instance %s aborted: Port %s is still in use.", second.id, p.id)
	case svc.cfg.FirstOfTwoFails && first.state == building:
		first.contested = true
		return false, ""
	}
	second.contested = true
	return true, ""
}

// failOnContestedPort fails a server whose port another server was made on, too.
func (svc *nova) failOnContestedPort(s *server, at time.Time) {
	svc.fail(s, at, fmt.Sprintf("Build of instance %s aborted: Failed to allocate the network(s), not rescheduling.", s.id))
}

// boundPorts returns the ports of a server's interfaces: those that it was made on and that are bound to it.
func (svc *nova) boundPorts(s *server) []*port {
	var bound []*port
	for _, n := range s.nics {
		if p, known := svc.Network.port(n.port); known && p.deviceID == s.id {
			bound = append(bound, p)
		}
	}
	return bound
}
