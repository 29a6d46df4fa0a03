package openstack

import (
	"net/http"
	"slices"
	"time"
)

// Host is a compute host.
type Host struct {
	Name, Zone string
	// Cell it belongs to; see LoseCell.
	Cell string
	// VCPUs, RAM (MiB) and Disk (GiB) are what servers may have of it; 0: no limit.
	VCPUs, RAM, Disk int
	// Disabled hosts get no new servers. Down ones neither, and servers on them are deleted without them.
	Disabled, Down bool
}

type host struct {
	Host
	vcpus, ram, disk, servers int
	// ids are the hostId by project.
	ids map[string]string
}

func (h *host) usable() bool { return !h.Disabled && !h.Down }

func (h *host) fits(f *Flavor) bool {
	within := func(limit, used, more int) bool { return limit == 0 || used+more <= limit }
	return within(h.VCPUs, h.vcpus, f.VCPUs) && within(h.RAM, h.ram, f.RAM) && within(h.Disk, h.disk, f.Disk)
}

func (h *host) claim(f *Flavor, sign int) {
	h.vcpus += sign * f.VCPUs
	h.ram += sign * f.RAM
	h.disk += sign * f.Disk
	h.servers += sign
}

// What the scheduler says when it has no host: nothing more when placement knows of none with room in the zone, and a
// reason when its filters refuse those that there are.
const (
	noCandidate = "No valid host was found. "
	noHostLeft  = "No valid host was found. There are not enough hosts available."
)

// choose picks the usable host of the zone with room and with the fewest members of the server group, then the fewest
// servers. Nil: none, and why.
func (c *Cloud) choose(s *server) (best *host, why string) {
	members := map[string]int{}
	policy := ""
	if s.group != nil {
		policy, members = s.group.policy, s.group.perHost
	}
	why = noCandidate
	for _, h := range c.compute.hosts {
		if !h.usable() || s.zone != "" && h.Zone != s.zone || !h.fits(s.flavor) {
			continue
		}
		why = noHostLeft
		apart := policy == "anti-affinity" && members[h.Name] > 0
		together := policy == "affinity" && len(members) > 0 && members[h.Name] == 0
		if apart || together {
			continue
		}
		if best == nil || rank(h, policy, members) < rank(best, policy, members) {
			best = h
		}
	}
	return best, why
}

func rank(h *host, policy string, members map[string]int) int {
	const muchMore = 1 << 20
	switch policy {
	case "soft-anti-affinity":
		return members[h.Name]*muchMore + h.servers
	case "soft-affinity":
		return -members[h.Name]*muchMore + h.servers
	}
	return h.servers
}

// fail puts a server into ERROR: what it had is given back but for quota, as in Nova.
func (c *Cloud) fail(s *server, at time.Time, message string) {
	c.unplug(s, at)
	c.alter(s, at, func() {
		s.state, s.task = failed, ""
		s.fault = &serverFault{code: http.StatusInternalServerError, created: at, message: message}
		s.addresses = object{}
		c.leaveHost(s)
		s.host, s.unclaimed, s.plugged = nil, false, false
	})
}

func (c *Cloud) leaveHost(s *server) {
	if s.host == nil {
		return
	}
	s.host.claim(s.flavor, -1)
	if s.group != nil {
		if s.group.perHost[s.host.Name]--; s.group.perHost[s.host.Name] == 0 {
			delete(s.group.perHost, s.host.Name)
		}
	}
}

// unplug deletes the ports that Nova made and frees the others, which outlive the server.
func (c *Cloud) unplug(s *server, at time.Time) {
	for _, n := range s.nics {
		p, known := c.network.ports.get(n.port)
		if !known || p.deviceID != s.id {
			continue
		}
		if n.made {
			c.dropPort(p)
			continue
		}
		p.unbind(at)
	}
}

// startDelete accepts a deletion; asking again changes nothing. Servers without a living host go at once.
func (c *Cloud) startDelete(s *server, at time.Time) {
	if s.state == deleted || s.task == "deleting" {
		return
	}
	c.alter(s, at, func() { s.task = "deleting" })
	if s.host == nil || s.unclaimed || s.host.Down {
		c.remove(s, at)
		return
	}
	c.plan(at.Add(c.cfg.DeleteTime), func(at time.Time) { c.remove(s, at) })
}

// remove ends a server. Its row stays for changes-since, without metadata, tags and addresses.
func (c *Cloud) remove(s *server, at time.Time) {
	if s.state == deleted {
		return
	}
	c.unplug(s, at)
	c.releaseVolumes(s)
	c.count(s, -1)
	c.alter(s, at, func() {
		s.state, s.task, s.terminated = deleted, "", at
		s.addresses, s.metadata, s.tags, s.volumes = object{}, nil, nil, nil
		c.leaveHost(s)
	})
	if s.group != nil {
		s.group.leave(s.id)
	}
	c.bury()
	if !s.announced {
		return
	}
	for _, f := range c.onGone {
		c.tell(func() { f(s.id) })
	}
}

// DeleteServer ends a server behind everybody's back, at once. False: there is none.
func (c *Cloud) DeleteServer(id string) bool {
	return c.withServer(id, func(s *server) { c.remove(s, c.clock.Now()) })
}

// FailServer puts a server into ERROR with that fault.
func (c *Cloud) FailServer(id, message string) bool {
	return c.withServer(id, func(s *server) {
		c.alter(s, c.clock.Now(), func() {
			s.state, s.task = failed, ""
			s.fault = &serverFault{code: http.StatusInternalServerError, created: c.clock.Now(), message: message}
		})
	})
}

// StopServer shuts a server down, as its own operating system may: SHUTOFF.
func (c *Cloud) StopServer(id string) bool {
	return c.withServer(id, func(s *server) {
		c.alter(s, c.clock.Now(), func() { s.state, s.task = stopped, "" })
	})
}

// SetConsole sets what os-getConsoleOutput gives.
func (c *Cloud) SetConsole(id, text string) bool {
	return c.withServer(id, func(s *server) { s.console = text })
}

func (c *Cloud) withServer(id string, f func(*server)) bool {
	found := false
	c.locked(func() {
		if s, known := c.compute.servers.get(id); known && s.state != deleted {
			found = true
			f(s)
		}
	})
	return found
}

// ArchiveDeleted forgets deleted servers, as `nova-manage db archive_deleted_rows` does: no list shows them again, and
// one of them as a marker is refused.
func (c *Cloud) ArchiveDeleted() {
	c.locked(func() {
		c.compute.servers.drop(func(s *server) bool { return s.state == deleted })
		c.compute.deleted = 0
	})
}

// maxDeleted is how many deleted servers are remembered at least; with twice as many the older half is archived, so that
// a cloud that runs for days does not grow.
const maxDeleted = 10_000

// bury counts a server that is deleted, and archives old ones. The lock is held.
func (c *Cloud) bury() {
	if c.compute.deleted++; c.compute.deleted < 2*maxDeleted {
		return
	}
	left := maxDeleted
	c.compute.servers.drop(func(s *server) bool {
		goes := s.state == deleted && left > 0
		if goes {
			left--
		}
		return goes
	})
	c.compute.deleted -= maxDeleted
}

// SetHost changes a host that is known by name, or adds one.
func (c *Cloud) SetHost(h Host) {
	c.locked(func() {
		if i := slices.IndexFunc(c.compute.hosts, func(known *host) bool { return known.Name == h.Name }); i >= 0 {
			c.compute.hosts[i].Host = h
			return
		}
		c.compute.hosts = append(c.compute.hosts, &host{Host: h})
	})
}

// Hosts gives all hosts, as they were last set.
func (c *Cloud) Hosts() []Host {
	var out []Host
	c.locked(func() {
		for _, h := range c.compute.hosts {
			out = append(out, h.Host)
		}
	})
	return out
}
