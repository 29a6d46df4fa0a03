package addresses

import (
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// Lists holds complete lists of the ports and floating IPs of a project.
type Lists struct {
	Ports       []PortRow
	FloatingIPs []FloatingIPRow
}

// DoubtUnlisted handles ports and floating IPs that were known before the given time and are missing from the lists. A missing
// port of a registered Machine becomes doubtful, because absence does not prove that the port is gone: drover looks the port up
// before it uses the port again. Missing ports and floating IPs of other Machines are removed.
func (s *Store) DoubtUnlisted(l Lists, before time.Time, isRegistered func(types.UID) bool) {
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
			case isRegistered(machine):
				port.Doubtful = true
				all[n] = port
			default:
				s.ForgetPort(machine, n, port.ID)
			}
		}
	}
	for machine, ip := range s.floating {
		if missing(ip.ID, ip.Since) && !isRegistered(machine) {
			delete(s.floating, machine)
		}
	}
}

// SeeUntagged records the server of each listed floating IP without an owner tag of this cluster. When a floating IP is detached,
// for example because its server is deleted, its last server stays recorded.
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

// SeeTrunks records the addresses of the subports of each listed port that is bound to a server. The subports themselves name no server.
func (s *Store) SeeTrunks(l Lists) {
	rows := make(map[string]*PortRow, len(l.Ports))
	for i := range l.Ports {
		rows[l.Ports[i].ID] = &l.Ports[i]
	}
	s.trunked = map[string][]string{}
	for i := range l.Ports {
		parent := &l.Ports[i]
		for _, sub := range parent.Trunk.Subports {
			if row := rows[sub.ID]; row != nil && parent.DeviceID != "" {
				s.trunked[parent.DeviceID] = append(s.trunked[parent.DeviceID], row.addresses()...)
			}
		}
	}
}

// Duplicate is a port or floating IP whose owner tag is also on another port or floating IP that drover already knew. It exists
// when a create of the previous leader was carried out late. Nothing uses it. drover deletes it when its Machine is gone.
type Duplicate struct {
	Tag owner.Tag
	// On is the server to which the port is bound, or the port to which the floating IP is attached; empty when there is none.
	On string
}

// SeeDuplicates records each listed port or floating IP of this cluster whose owner tag is also on another port or floating IP
// that drover already knows.
func (s *Store) SeeDuplicates(l Lists, cluster owner.Cluster) {
	s.duplicates = map[string]Duplicate{}
	for i := range l.Ports {
		row := &l.Ports[i]
		if tag, ours := cluster.Read(owner.PortKind, row.Description); ours && s.ports[tag.Machine][tag.N].ID != row.ID {
			s.duplicates[row.ID] = Duplicate{Tag: tag, On: row.DeviceID}
		}
	}
	for i := range l.FloatingIPs {
		row := &l.FloatingIPs[i]
		if tag, ours := cluster.Read(owner.FloatingIPKind, row.Description); ours && s.floating[tag.Machine].ID != row.ID {
			s.duplicates[row.ID] = Duplicate{Tag: tag, On: row.PortID}
		}
	}
}

// Duplicates returns the recorded duplicates by their IDs, unsorted.
func (s *Store) Duplicates() iter.Seq2[string, Duplicate] { return maps.All(s.duplicates) }

// PlaceOf returns where a floating IP without an owner tag of this cluster was last seen on a server; zero when it was never seen
// on one.
func (s *Store) PlaceOf(floatingIP string) Place { return s.untagged[floatingIP] }
