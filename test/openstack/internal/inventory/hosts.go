package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Host is a compute host.
type Host struct {
	Name, Zone string
	// Cell is the cell that the host belongs to; see LoseCell.
	Cell string
	// VCPUs, RAM (MiB) and Disk (GiB) are the host's resources for servers. 0 means no limit.
	VCPUs, RAM, Disk int
	// Disabled and Down hosts get no new servers. A server on a Down host is deleted immediately, because Nova does
	// not wait for that host.
	Disabled, Down bool
}

// Hypervisor is a host, and the resources that servers use on it.
type Hypervisor struct {
	Host
	vcpus, ram, disk, servers int
	// ids holds the hostId that each project sees, by project.
	ids map[string]string
}

func (h *Hypervisor) usable() bool { return !h.Disabled && !h.Down }

func (h *Hypervisor) fits(f *Flavor) bool {
	within := func(limit, used, more int) bool { return limit == 0 || used+more <= limit }
	return within(h.VCPUs, h.vcpus, f.VCPUs) && within(h.RAM, h.ram, f.RAM) && within(h.Disk, h.disk, f.Disk)
}

func (h *Hypervisor) claim(f *Flavor, sign int) {
	h.vcpus += sign * f.VCPUs
	h.ram += sign * f.RAM
	h.disk += sign * f.Disk
	h.servers += sign
}

// The scheduler's error texts when it finds no host. noCandidate is the text when no host in the zone has room, and noHostLeft
// is the text when filters refuse the remaining hosts.
const (
	noCandidate = "No valid host was found. "
	noHostLeft  = "No valid host was found. There are not enough hosts available."
)

// Choose returns the host for a new server: a usable host in the zone that has room for the flavor and that the server
// group's policy allows. It prefers the host that suits the policy best, and among equals the host with the fewest
// servers. When there is no such host, it returns nil and the reason.
func (svc *Service) Choose(f *Flavor, zone string, g *ServerGroup) (best *Hypervisor, why string) {
	members := map[string]int{}
	policy := ""
	if g != nil {
		policy, members = g.policy, g.perHost
	}
	why = noCandidate
	for _, h := range svc.hosts {
		if !h.usable() || zone != "" && h.Zone != zone || !h.fits(f) {
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

func rank(h *Hypervisor, policy string, members map[string]int) int {
	const muchMore = 1 << 20
	switch policy {
	case "soft-anti-affinity":
		return members[h.Name]*muchMore + h.servers
	case "soft-affinity":
		return -members[h.Name]*muchMore + h.servers
	}
	return h.servers
}

// SetHost changes the host with the name, or adds it.
func (svc *Service) SetHost(h Host) {
	if i := slices.IndexFunc(svc.hosts, func(known *Hypervisor) bool { return known.Name == h.Name }); i >= 0 {
		svc.hosts[i].Host = h
		return
	}
	svc.hosts = append(svc.hosts, &Hypervisor{Host: h})
}

// Hosts returns all hosts as SetHost last set them.
func (svc *Service) Hosts() []Host {
	var out []Host
	for _, h := range svc.hosts {
		out = append(out, h.Host)
	}
	return out
}

// HasZone reports whether there is a usable host in the zone.
func (svc *Service) HasZone(zone string) bool {
	return slices.ContainsFunc(svc.hosts, func(h *Hypervisor) bool { return h.Zone == zone && h.usable() })
}

// Occupy adds a server to the used resources of a host.
func (h *Hypervisor) Occupy(f *Flavor, g *ServerGroup) {
	h.claim(f, +1)
	if g != nil {
		g.perHost[h.Name]++
	}
}

// Vacate removes a server from the used resources of a host.
func (h *Hypervisor) Vacate(f *Flavor, g *ServerGroup) {
	h.claim(f, -1)
	if g == nil {
		return
	}
	if g.perHost[h.Name]--; g.perHost[h.Name] == 0 {
		delete(g.perHost, h.Name)
	}
}

// IDFor returns the hostId that a project sees. Different hosts have different hostIds within a project. A hostId reveals
// nothing else about its host.
func (h *Hypervisor) IDFor(project string) string {
	if h.ids == nil {
		h.ids = map[string]string{}
	}
	id, known := h.ids[project]
	if !known {
		sum := sha256.Sum224([]byte(project + h.Name))
		id = hex.EncodeToString(sum[:])
		h.ids[project] = id
	}
	return id
}
