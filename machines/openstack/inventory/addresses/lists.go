package addresses

import (
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// Lists are complete lists of the ports and floating IPs of a project.
type Lists struct {
	Ports       []PortRow
	FloatingIPs []FloatingIPRow
}

// DoubtUnlisted handles ports and floating IPs that were known before that time and that the lists lack. Absence is no proof: a port of
// a Machine that exists is looked up before it is used again. What belongs to no known Machine is forgotten.
func (s *Store) DoubtUnlisted(l Lists, before time.Time, knows func(types.UID) bool) {
	listed := make(map[string]bool, len(l.Ports)+len(l.FloatingIPs))
	for i := range l.Ports {
		listed[l.Ports[i].ID] = true
	}
	for i := range l.FloatingIPs {
		listed[l.FloatingIPs[i].ID] = true
	}
	missing := func(id string, since time.Time) bool { return !listed[id] && since.Before(before) }
	for machine, all := range s.ports {
		for n, port := range all {
			switch {
			case !missing(port.ID, port.Since):
			case knows(machine):
				port.Doubtful = true
				all[n] = port
			default:
				s.ForgetPort(machine, n, port.ID)
			}
		}
	}
	for machine, ip := range s.floating {
		if missing(ip.ID, ip.Since) && !knows(machine) {
			delete(s.floating, machine)
		}
	}
}

// SeeUntagged stores on which server the lists show each floating IP without an owner tag of this cluster. A floating IP that was
// taken off its server, as when that is deleted, keeps the server that it was on.
func (s *Store) SeeUntagged(l Lists, cluster owner.Cluster) {
	servers := make(map[string]string, len(l.Ports))
	for i := range l.Ports {
		servers[l.Ports[i].ID] = l.Ports[i].DeviceID
	}
	before := s.untagged
	s.untagged = map[string]Place{}
	for i := range l.FloatingIPs {
		ip := &l.FloatingIPs[i]
		place := Place{PortID: ip.PortID, ServerID: servers[ip.PortID]}
		if ip.PortID == "" {
			place = before[ip.ID]
		}
		if _, tagged := cluster.Read(owner.FloatingIPKind, ip.Description); !tagged && place.ServerID != "" {
			s.untagged[ip.ID] = place
		}
	}
}

// Twin is a port or a floating IP with the owner tag of another one that is known: an order of the previous leader arrived late.
// Nothing uses it. It is collected when its Machine is gone.
type Twin struct {
	Tag owner.Tag
	// On is the server that a port is bound to, and the port that a floating IP is on; empty: none.
	On string
	// Since is when it was first seen, on our clock. Created is when Neutron says that it was created; zero: it does not say.
	Since, Created time.Time
}

// SeeTwins stores which listed ports and floating IPs of this cluster have the owner tag of another one that is known.
func (s *Store) SeeTwins(l Lists, cluster owner.Cluster, now time.Time) {
	before := s.twins
	s.twins = map[string]Twin{}
	see := func(id string, tag owner.Tag, on, at string) {
		since := now
		if twin, known := before[id]; known {
			since = twin.Since
		}
		s.twins[id] = Twin{Tag: tag, On: on, Since: since, Created: created(at)}
	}
	for i := range l.Ports {
		row := &l.Ports[i]
		if tag, ours := cluster.Read(owner.PortKind, row.Description); ours && s.ports[tag.Machine][tag.N].ID != row.ID {
			see(row.ID, tag, row.DeviceID, row.CreatedAt)
		}
	}
	for i := range l.FloatingIPs {
		row := &l.FloatingIPs[i]
		if tag, ours := cluster.Read(owner.FloatingIPKind, row.Description); ours && s.floating[tag.Machine].ID != row.ID {
			see(row.ID, tag, row.PortID, row.CreatedAt)
		}
	}
}

// Duplicates returns the ports and floating IPs with the owner tag of another one that is known, by ID, in no order.
func (s *Store) Duplicates() iter.Seq2[string, Twin] { return maps.All(s.twins) }

// PlaceOf returns where a floating IP without an owner tag of this cluster was last seen on a server; zero: nowhere.
func (s *Store) PlaceOf(floatingIP string) Place { return s.untagged[floatingIP] }
