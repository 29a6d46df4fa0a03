package openstack

import (
	"fmt"
	"slices"
	"time"
)

// place chooses a server's host, or fails the server. The list shows the host's zone from then on; the host itself shows
// when its nova-compute has claimed the server, ClaimTime later.
func (s *server) place(c *Cloud) func(time.Time) {
	return func(at time.Time) {
		if !s.wanted() {
			return
		}
		h, why := c.choose(s)
		if h == nil {
			s.unlisted = !c.cfg.FaultsInLists
			c.fail(s, at, why)
			return
		}
		c.alter(s, at, func() {
			s.host, s.unclaimed, s.task = h, true, ""
			h.claim(s.flavor, +1)
			if s.group != nil {
				s.group.perHost[h.Name]++
			}
		})
		c.after(at, c.cfg.ClaimTime, s.claim(c))
	}
}

// claim shows the server on its host. Its ports follow NetworkTime later.
func (s *server) claim(c *Cloud) func(time.Time) {
	return func(at time.Time) {
		if !s.wanted() {
			return
		}
		c.alter(s, at, func() { s.unclaimed, s.task = false, "networking" })
		c.after(at, c.cfg.NetworkTime, s.spawn(c))
	}
}

// spawn gives a server its ports, volumes and addresses, or its fault. It becomes ACTIVE BootTime after it was asked for.
func (s *server) spawn(c *Cloud) func(time.Time) {
	return func(at time.Time) {
		if !s.wanted() {
			return
		}
		if c.trouble.networkDown {
			c.failWithoutNetwork(s, at)
			return
		}
		c.alter(s, at, func() { s.task = "spawning" })
		if problem := c.plug(s, at); problem != "" {
			c.fail(s, at, problem)
			return
		}
		if problem := c.attachDevices(s, at); problem != "" {
			c.fail(s, at, problem)
			return
		}
		c.edit(s, at, func() { s.plugged, s.addresses, s.groups = true, c.addressesOf(s), c.portGroups(s) })
		boot := s.created.Add(c.cfg.BootTime)
		if boot.Before(at) {
			boot = at
		}
		c.plan(boot, s.boot(c))
	}
}

// wanted reports whether a server is still being built and nobody has asked for its deletion.
func (s *server) wanted() bool { return s.state == building && s.task != "deleting" }

// plug binds a server's ports and makes those that Nova makes itself.
func (c *Cloud) plug(s *server, at time.Time) string {
	nics := slices.Clone(s.nics)
	defer func() { c.edit(s, at, func() { s.nics = nics }) }()
	for i := range nics {
		if nics[i].made {
			p, problem := c.novaPort(s, nics[i], at)
			if problem != "" {
				return problem
			}
			nics[i].port = p.id
		}
		p, known := c.network.ports.get(nics[i].port)
		if !known {
			return fmt.Sprintf("Port id %s could not be found.", nics[i].port)
		}
		if first, taken := c.holderOf(p, s); taken {
			takes, problem := c.contend(p, first, s)
			if problem != "" {
				return problem
			}
			if !takes {
				continue
			}
			c.addressesChanged(first.id)
		}
		p.deviceID, p.deviceOwner, p.host, p.status = s.id, "compute:"+s.host.Zone, s.host.Name, "DOWN"
		p.touch(at)
	}
	return ""
}

// portGroups are the names of the security groups that a server's ports are in, each once.
func (c *Cloud) portGroups(s *server) []string {
	var names []string
	for _, p := range c.boundPorts(s) {
		for _, id := range p.groups {
			g, there := c.network.groups.get(id)
			if there && !slices.Contains(names, g.name) {
				names = append(names, g.name)
			}
		}
	}
	return names
}

// novaPort makes a port as Nova does: no name, no description, the server's security groups.
func (c *Cloud) novaPort(s *server, n nic, at time.Time) (*port, string) {
	if n, known := c.network.networks.get(n.network); known && n.external {
		return nil, fmt.Sprintf("Build of instance %s aborted: Failed to allocate the network(s), not rescheduling.", s.id)
	}
	aborted := func(why string) string { return fmt.Sprintf("Build of instance %s aborted: %s", s.id, why) }
	if beyond(c.quotaOf(s.project).Ports, c.network.portCount[s.project]+1) {
		return nil, aborted("Maximum number of ports exceeded")
	}
	project, _ := c.identity.projects.get(s.project)
	q := &request{service: serviceNetwork, now: at, token: &token{project: project}}
	var groups []string
	for _, g := range c.network.groups.all() {
		if g.project == s.project && slices.Contains(s.groups, g.name) {
			groups = append(groups, g.id)
		}
	}
	spec := &portSpec{NetworkID: n.network, SecurityGroups: &groups}
	if n.fixed != "" {
		spec.FixedIPs = &[]fixedIPSpec{{IPAddress: n.fixed}}
	}
	p, refused := c.makePort(q, spec)
	if refused.status != 0 {
		return nil, aborted(fmt.Sprintf("Failed to allocate the network(s), not rescheduling. (%d)", refused.status))
	}
	return p, ""
}

// boot makes a placed server ACTIVE.
func (s *server) boot(c *Cloud) func(time.Time) {
	return func(at time.Time) {
		if !s.wanted() || s.host.Down {
			return
		}
		if s.contested {
			c.failOnContestedPort(s, at)
			return
		}
		c.alter(s, at, func() {
			s.state, s.task, s.launched = active, "", at
			s.console = "[    0.000000] Linux version 6.8.0 (simulated)\n" + s.hostname + " login: \n"
		})
		for _, p := range c.boundPorts(s) {
			p.status = "ACTIVE"
			p.touch(at)
		}
		s.announced = true
		for _, f := range c.onBoot {
			out := c.export(s)
			c.tell(func() { f(out) })
		}
	}
}
