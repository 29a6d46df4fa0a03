package nova

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/cinder"
	"github.com/drover-project/drover/test/openstack/internal/neutron"
)

// place chooses a server's host, or puts the server into ERROR. From then on the API shows the host's zone. It shows the host
// itself after ClaimTime, when the host's nova-compute has claimed the server.
func (svc *Service) place(s *server, at time.Time) {
	if !s.wanted() {
		return
	}
	h, why := svc.Inventory.Choose(s.flavor, s.zone, s.group)
	if h == nil {
		s.unlisted = !svc.cfg.FaultsInLists
		svc.fail(s, at, why)
		return
	}
	svc.alter(s, at, func() {
		s.host, s.unclaimed, s.task = h, true, ""
		h.Occupy(s.flavor, s.group)
	})
	svc.kernel.After(at, svc.cfg.ClaimTime, func(at time.Time) { svc.claim(s, at) })
}

// claim makes the API show a server's host. The server's ports are bound after NetworkTime.
func (svc *Service) claim(s *server, at time.Time) {
	if !s.wanted() {
		return
	}
	svc.alter(s, at, func() { s.unclaimed, s.task = false, "networking" })
	svc.kernel.After(at, svc.cfg.NetworkTime, func(at time.Time) { svc.spawn(s, at) })
}

// spawn binds a server's ports, attaches its volumes and sets its addresses. When one of these fails, it sets the server's
// fault. The server becomes ACTIVE BootTime after the create request.
func (svc *Service) spawn(s *server, at time.Time) {
	if !s.wanted() {
		return
	}
	if svc.Network.Down() {
		svc.failWithoutNetwork(s, at)
		return
	}
	svc.alter(s, at, func() { s.task = "spawning" })
	if problem := svc.plug(s, at); problem != "" {
		svc.fail(s, at, problem)
		return
	}
	if problem := svc.attachDevices(s, at); problem != "" {
		svc.fail(s, at, problem)
		return
	}
	svc.edit(s, at, func() { s.plugged, s.addresses, s.groups = true, svc.addressesOf(s), svc.portGroups(s) })
	boot := s.created.Add(svc.cfg.BootTime)
	if boot.Before(at) {
		boot = at
	}
	svc.kernel.Plan(boot, func(at time.Time) { svc.boot(s, at) })
}

// wanted reports whether a server is still being built and no client has requested its deletion.
func (s *server) wanted() bool { return s.state == building && s.task != "deleting" }

// plug binds a server's ports, and creates the ports that the client left to Nova. When this fails, it returns the
// text of the server's fault.
func (svc *Service) plug(s *server, at time.Time) string {
	nics := slices.Clone(s.nics)
	defer func() { svc.edit(s, at, func() { s.nics = nics }) }()
	for i := range nics {
		if nics[i].made {
			p, problem := svc.novaPort(s, nics[i], at)
			if problem != "" {
				return problem
			}
			nics[i].port = p.ID
		}
		p, known := svc.Network.Port(nics[i].port)
		if !known {
			return fmt.Sprintf("Port id %s could not be found.", nics[i].port)
		}
		if first, taken := svc.holderOf(p, s); taken {
			takes, problem := svc.contend(p, first, s)
			if problem != "" {
				return problem
			}
			if !takes {
				continue
			}
			svc.AddressesChanged(first.id)
		}
		p.Bind(s.id, s.host.Zone, s.host.Name, at)
	}
	return ""
}

// portGroups returns the names of the security groups of a server's ports, without duplicates.
func (svc *Service) portGroups(s *server) []string {
	var names []string
	for _, p := range svc.boundPorts(s) {
		for _, name := range svc.Network.GroupNames(p) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// novaPort creates a port as Nova does: without a name and a description, and with the server's security groups.
func (svc *Service) novaPort(s *server, n nic, at time.Time) (*neutron.Port, string) {
	if svc.Network.IsExternal(n.network) {
		return nil, fmt.Sprintf("Build of instance %s aborted: Failed to allocate the network(s), not rescheduling.", s.id)
	}
	aborted := func(why string) string { return fmt.Sprintf("Build of instance %s aborted: %s", s.id, why) }
	if !svc.Ports.HasRoom(s.project, 1) {
		return nil, aborted("Maximum number of ports exceeded")
	}
	p, refused := svc.Ports.ServerPort(s.project, n.network, n.fixed, s.groups, at)
	if refused.Status != 0 {
		return nil, aborted(fmt.Sprintf("Failed to allocate the network(s), not rescheduling. (%d)", refused.Status))
	}
	return p, ""
}

// boot makes a placed server ACTIVE.
func (svc *Service) boot(s *server, at time.Time) {
	if !s.wanted() || s.host.Down {
		return
	}
	if s.contested {
		svc.failOnContestedPort(s, at)
		return
	}
	svc.alter(s, at, func() {
		s.state, s.task, s.launched = active, "", at
		s.console = "[    0.000000] Linux version 6.8.0 (simulated)\n" + s.hostname + " login: \n"
	})
	for _, p := range svc.boundPorts(s) {
		p.Activate(at)
	}
	s.announced = true
	for _, f := range svc.onBoot {
		out := svc.export(s)
		svc.kernel.Tell(func() { f(out) })
	}
}

// attachDevices creates the new volumes of a server, and attaches the existing ones. When this fails, it returns the text of
// the server's fault.
func (svc *Service) attachDevices(s *server, at time.Time) string {
	var list []cinder.Attachment
	defer func() { svc.edit(s, at, func() { s.volumes = list }) }()
	for i, b := range s.devices {
		if b.DestinationType != "volume" && b.SourceType != "volume" {
			continue
		}
		a, problem := svc.Volumes.Attach(s.id, s.project, cinder.Device{
			Existing: b.SourceType == "volume", ID: b.UUID, Size: b.VolumeSize, Kind: b.VolumeType,
			Path: fmt.Sprintf("/dev/vd%c", 'a'+i), DeleteOnTermination: b.DeleteOnTermination,
		}, at)
		if problem != "" {
			return problem
		}
		list = append(list, a)
	}
	return ""
}

// failWithoutNetwork fails a build when Nova cannot reach Neutron, with Nova's error text in release Zed. The caller holds the
// lock.
func (svc *Service) failWithoutNetwork(s *server, at time.Time) {
	svc.fail(s, at, fmt.Sprintf("Build of instance %s aborted: Unable to establish connection to %s/network/v2.0/ports: "+
		"HTTPConnectionPool: Max retries exceeded with url: /v2.0/", s.id, svc.cfg.BaseURL()))
}
