package verdict

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	// leastToJudge is how many Machines a group, zone or cluster must have before its share of unhealthy Machines is
	// meaningful: of two Machines, one is already half.
	leastToJudge = 3
	// leastMissing and partMissing define when a snapshot is not trusted: the number of missing Machines or Nodes is larger than
	// leastMissing, and larger than a tenth (1/partMissing) of all.
	leastMissing, partMissing = 3, 10
)

// share counts the Machines of a group, a zone or the cluster.
type share struct {
	counted, unhealthy int
	// sharing is subtracted from unhealthy, so that all Machines of a failed host count as one. It is the number of unhealthy
	// Machines on failed hosts, minus the number of these hosts.
	sharing int
}

// tooMany reports whether more than the given percentage of the Machines is unhealthy. The Machines of one failed host count
// as one.
func (s *share) tooMany(percent int) bool {
	return s.counted >= leastToJudge && (s.unhealthy-s.sharing)*100 > s.counted*percent
}

// host counts the Machines on one physical host.
type host struct {
	zone            string
	well, unhealthy int
	failed          bool
}

// shares holds the shares of all groups and zones, and of the cluster.
type shares struct {
	percent       int
	cluster       share
	zones         map[string]*share
	groups        map[*Group]*share
	hosts         map[string]*host
	known, absent int
	// missing is the number of Machines that the snapshot lacks.
	missing int
}

func newShares(percent, missing int) *shares {
	return &shares{percent: percent, missing: missing, zones: map[string]*share{}, groups: map[*Group]*share{}, hosts: map[string]*host{}}
}

// sharesOf returns the shares that a Machine belongs to.
func (s *shares) sharesOf(m *Machine) [3]*share {
	zone, ok := s.zones[zoneOf(m)]
	if !ok {
		zone = &share{}
		s.zones[zoneOf(m)] = zone
	}
	group, ok := s.groups[m.Group]
	if !ok {
		group = &share{}
		s.groups[m.Group] = group
	}
	return [3]*share{&s.cluster, zone, group}
}

// count adds one Machine to the numbers of its group, its zone and the cluster.
func (s *shares) count(m *Machine, f *Finding) {
	if f.started {
		s.known++
	}
	if f.absent {
		s.absent++
	}
	if !f.Counted {
		return
	}
	for _, share := range s.sharesOf(m) {
		share.counted++
		if f.Unhealthy {
			share.unhealthy++
		}
	}
}

// countHosts finds the failed hosts. A host has failed if at least two Machines on it are unhealthy and none is healthy,
// while the share of unhealthy Machines in the rest of the zone is within the limit. If the zone has no other host, the host
// does not count as failed, because a failed zone would look the same.
func (s *shares) countHosts(w *World, findings []Finding, unhealthy []*Verdict) {
	for _, v := range unhealthy {
		if v.host != "" && v.Counted {
			s.hostOf(v).unhealthy++
		}
	}
	if len(s.hosts) == 0 {
		return
	}
	for i := range w.Machines {
		if m := &w.Machines[i]; findings[i].Counted && !findings[i].Unhealthy {
			if h, ok := s.hosts[w.hostOf(m)]; ok {
				h.well++
			}
		}
	}
	for _, h := range s.hosts {
		h.failed = h.unhealthy > 1 && h.well == 0 && s.restIsWell(h)
	}
	s.discount(unhealthy)
}

func (s *shares) hostOf(v *Verdict) *host {
	h, ok := s.hosts[v.host]
	if !ok {
		h = &host{}
		s.hosts[v.host] = h
	}
	if h.zone == "" {
		h.zone = zoneOf(v.Machine)
	}
	return h
}

func (s *shares) restIsWell(h *host) bool {
	zone := s.zones[h.zone]
	counted, unhealthy := zone.counted-h.unhealthy, zone.unhealthy-h.unhealthy
	return counted > 0 && unhealthy*100 <= counted*s.percent
}

// discount makes the Machines of a failed host count as one in each share.
func (s *shares) discount(unhealthy []*Verdict) {
	type place struct {
		share *share
		host  string
	}
	seen := map[place]bool{}
	for _, v := range unhealthy {
		if !v.Counted || !s.hostFailed(v.host) {
			continue
		}
		for _, share := range s.sharesOf(v.Machine) {
			at := place{share, v.host}
			if seen[at] {
				share.sharing++
			}
			seen[at] = true
		}
	}
}

func (s *shares) hostFailed(name string) bool {
	h, ok := s.hosts[name]
	return ok && h.failed
}

// nodesMissing reports whether so many Nodes are missing that the snapshot of Nodes is not trusted.
func (s *shares) nodesMissing() bool {
	return s.absent > max(leastMissing, s.known/partMissing)
}

// machinesMissing reports whether so many Machines are missing that the snapshot of Machines is not trusted. Such a snapshot
// may lack so many Machines of a failed zone that the zone's share of unhealthy Machines seems small.
func (s *shares) machinesMissing() bool {
	return s.missing > max(leastMissing, (s.known+s.missing)/partMissing)
}

// unbelievable returns the brake for a snapshot that lacks too many Machines or Nodes, and a sentence that explains the brake
// to users. Both are empty when the snapshot is trusted.
func (s *shares) unbelievable() (Brake, string) {
	switch {
	case s.machinesMissing():
		return brakeMachinesMissing, "so many Machines of the cluster are missing at once that the list of Machines is not trusted"
	case s.nodesMissing():
		return brakeNodesMissing, "so many Nodes of the cluster are missing at once that the list of Nodes is not trusted"
	}
	return "", ""
}

// brake returns the brake that applies to the Machine because too many Machines are unhealthy, or because too many Machines
// or Nodes are missing. It also returns a sentence for users that names the group, zone or cluster. Both are empty when no
// such brake applies.
func (s *shares) brake(m *Machine) (Brake, string) {
	if missing, why := s.unbelievable(); missing != "" {
		return missing, why
	}
	zone := zoneOf(m)
	switch {
	case s.cluster.tooMany(s.percent):
		return brakeCluster, fmt.Sprintf("more than %d %% of the cluster's Machines are unhealthy", s.percent)
	case zone != "" && s.zones[zone] != nil && s.zones[zone].tooMany(s.percent):
		return brakeZone, fmt.Sprintf("more than %d %% of the Machines in zone %s are unhealthy", s.percent, zone)
	case m.Group != nil && s.groups[m.Group] != nil && s.groups[m.Group].tooMany(s.percent):
		return brakeGroup, fmt.Sprintf("more than %d %% of the Machines of %s are unhealthy", s.percent, m.Group)
	}
	return "", ""
}

// zoneOf returns the zone of the Machine's Node; empty when there is no Node, or when the Node has no zone label.
func zoneOf(m *Machine) string {
	if m.Node == nil {
		return ""
	}
	return m.Node.Labels[corev1.LabelTopologyZone]
}
