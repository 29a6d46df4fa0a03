package verdict

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	// leastToJudge is how many Machines must count in a group, zone or cluster before a share of them means anything: of two, one is
	// half.
	leastToJudge = 3
	// leastMissing and partMissing: when more than leastMissing Machines or Nodes, and more than one in partMissing, are missing, the
	// snapshot of them is not believed.
	leastMissing, partMissing = 3, 10
)

// share counts the Machines of a group, a zone or the cluster.
type share struct {
	counted, unhealthy int
	// sharing are unhealthy Machines that have failed together with another one of the same share, because their host has.
	sharing int
}

// tooMany reports whether more than so many percent are unhealthy. The Machines of one failed host are one.
func (s *share) tooMany(percent int) bool {
	return s.counted >= leastToJudge && (s.unhealthy-s.sharing)*100 > s.counted*percent
}

// host counts the Machines on one physical host.
type host struct {
	zone            string
	well, unhealthy int
	failed          bool
}

// shares are all the shares of a snapshot.
type shares struct {
	percent       int
	cluster       share
	zones         map[string]*share
	groups        map[*Group]*share
	hosts         map[string]*host
	known, absent int
	// missing are the Machines that the snapshot lacks.
	missing int
}

func newShares(percent, missing int) *shares {
	return &shares{percent: percent, missing: missing, zones: map[string]*share{}, groups: map[*Group]*share{}, hosts: map[string]*host{}}
}

// of returns the shares that a Machine belongs to.
func (s *shares) of(m *Machine) [3]*share {
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

// count adds one Machine.
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
	for _, share := range s.of(m) {
		share.counted++
		if f.Unhealthy {
			share.unhealthy++
		}
	}
}

// countHosts finds the hosts that have failed: at least two Machines on the host are unhealthy and none is well, while in the
// rest of the zone no more are unhealthy than may be. Without such a rest a failed host looks like a failed zone.
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

// discount makes the Machines of a failed host one in each share.
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
		for _, share := range s.of(v.Machine) {
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

// nodesMissing reports whether so many Nodes are missing that the snapshot of Nodes is not believed.
func (s *shares) nodesMissing() bool {
	return s.absent > max(leastMissing, s.known/partMissing)
}

// machinesMissing reports whether so many Machines are missing that the snapshot of Machines is not believed: of a zone that is out it may
// show so few that they have no share.
func (s *shares) machinesMissing() bool {
	return s.missing > max(leastMissing, (s.known+s.missing)/partMissing)
}

// unbelievable returns the brake that holds because the snapshot lacks too much, and a sentence for people. Both are empty when none does.
func (s *shares) unbelievable() (Brake, string) {
	switch {
	case s.machinesMissing():
		return brakeMachinesMissing, "so many Machines of the cluster are missing at once that the list of Machines is not believed"
	case s.nodesMissing():
		return brakeNodesMissing, "so many Nodes of the cluster are missing at once that the list of Nodes is not believed"
	}
	return "", ""
}

// brake returns the brake that keeps the Machine from being replaced because too many Machines are unhealthy, or too many Machines or
// Nodes missing, and a sentence for people that says where. Both are empty when none does.
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

// zoneOf returns the zone of the Machine's Node; empty when there is no Node, or no label says.
func zoneOf(m *Machine) string {
	if m.Node == nil {
		return ""
	}
	return m.Node.Labels[corev1.LabelTopologyZone]
}
