package state

import (
	"iter"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// AddressLists holds complete lists of the ports and floating IPs of a project.
type AddressLists struct {
	Ports       []PortRow
	FloatingIPs []FloatingIPRow
}

// doubtUnlisted handles ports and floating IPs that were known before the given time and are missing from the lists. A missing
// port of a registered Machine becomes doubtful, because absence does not prove that the port is gone: drover looks the port up
// before it uses the port again. Missing ports and floating IPs of other Machines are removed.
func (s *Addresses) doubtUnlisted(l AddressLists, before time.Time, isRegistered func(types.UID) bool) {
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

// seeUntagged records the server of each listed floating IP without an owner tag of this cluster. When a floating IP is detached,
// for example because its server is deleted, its last server stays recorded.
func (s *Addresses) seeUntagged(l AddressLists, cluster Cluster) {
	servers := make(map[string]string, len(l.Ports))
	for i := range l.Ports {
		servers[l.Ports[i].ID] = l.Ports[i].DeviceID
	}
	before := s.untagged
	s.untagged = map[string]place{}
	for i := range l.FloatingIPs {
		ip := &l.FloatingIPs[i]
		place := place{PortID: ip.PortID, ServerID: servers[ip.PortID]}
		if ip.PortID == "" {
			place = before[ip.ID]
		}
		if _, tagged := cluster.Read(FloatingIPKind, ip.Description); !tagged && place.ServerID != "" {
			s.untagged[ip.ID] = place
		}
	}
}

// seeTrunks records the addresses of the subports of each listed port that is bound to a server. The subports themselves name no server.
func (s *Addresses) seeTrunks(l AddressLists) {
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

// duplicate is a port or floating IP whose owner tag is also on another port or floating IP that drover already knew. It exists
// when a create of the previous leader was carried out late. Nothing uses it. drover deletes it when its Machine is gone.
type duplicate struct {
	tag Tag
	// on is the server to which the port is bound, or the port to which the floating IP is attached; empty when there is none.
	on string
}

// seeDuplicates records each listed port or floating IP of this cluster whose owner tag is also on another port or floating IP
// that drover already knows.
func (s *Addresses) seeDuplicates(l AddressLists, cluster Cluster) {
	s.duplicates = map[string]duplicate{}
	for i := range l.Ports {
		row := &l.Ports[i]
		if tag, ours := cluster.Read(PortKind, row.Description); ours && s.ports[tag.Machine][tag.N].ID != row.ID {
			s.duplicates[row.ID] = duplicate{tag: tag, on: row.DeviceID}
		}
	}
	for i := range l.FloatingIPs {
		row := &l.FloatingIPs[i]
		if tag, ours := cluster.Read(FloatingIPKind, row.Description); ours && s.floating[tag.Machine].ID != row.ID {
			s.duplicates[row.ID] = duplicate{tag: tag, on: row.PortID}
		}
	}
}

// allDuplicates returns the recorded duplicates by their IDs, unsorted.
func (s *Addresses) allDuplicates() iter.Seq2[string, duplicate] { return maps.All(s.duplicates) }

// placeOf returns where a floating IP without an owner tag of this cluster was last seen on a server; zero when it was never seen
// on one.
func (s *Addresses) placeOf(floatingIP string) place { return s.untagged[floatingIP] }
