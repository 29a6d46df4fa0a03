package verdict

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Memory is the state that one round leaves for the next.
type Memory struct {
	// Stored is the part that is kept when the process ends.
	Stored Stored
	// Version is the highest resource version of a list of Machines.
	Version string
	// Living are the Machines of the last list. Lost are the Machines that vanished although no deletion was reported, each
	// with the time at which it was found missing.
	Living map[types.UID]bool
	Lost   map[types.UID]time.Time
	// Orphans are the orphans of the last round, by kind and ID, each with the time of the round that first found it.
	Orphans map[string]time.Time
	// Drains holds when the drain of an orphan's Node began, by kind and ID of the orphan.
	Drains map[string]time.Time
	// Servers are the servers with the owner tags of this cluster that a round has seen, each with the projects in which it
	// was seen. A server is kept as long as it exists or a Node names it.
	Servers map[cloud.ServerID][]site
	// Tried holds when each orphan was last due for deletion. Asked holds when its deletion was accepted. The keys are kind
	// and ID.
	Tried, Asked map[string]time.Time
}

// Accepted records that the cloud or the API server has accepted the deletion of an orphan. It reports whether this is the
// first accepted deletion of the orphan.
func (m *Memory) Accepted(o *Orphan, now time.Time) (first bool) {
	_, again := m.Asked[o.key()]
	m.Asked[o.key()] = now
	return !again
}

// Stored is the part of a [Memory] that the next leader needs.
type Stored struct {
	// ClusterID is the ID for which orphans are collected. While the present cluster ID differs from it, orphans are only
	// reported.
	ClusterID string `json:"clusterID,omitempty"`
	// Hold is the reason why nothing at all is collected until an operator confirms it; its Reason is empty when there is no
	// hold. Holds are such reasons for single projects.
	Hold  Stop   `json:"hold,omitzero"`
	Holds []hold `json:"holds,omitempty"`
	// Unled are the spans of time in which, according to this cluster's records, no drover process was the leader. A resource
	// from such a span was created by a process that left no record, or by another cluster with the same ID.
	Unled []Span `json:"unled,omitempty"`
}

// hold is the reason why nothing is collected in one project until an operator confirms it.
type hold struct {
	site
	Stop
}

// mostHolds bounds the number of Stored.Holds. 200 holds take about 120 KiB.
const mostHolds = 200

// mostSpans bounds the number of Stored.Unled. 200 spans take about 20 KiB.
const mostSpans = 200

// WithUnled returns a copy of s with one more span without a leader. When there are then more than mostSpans spans, it merges the
// two neighbouring spans with the shortest gap between them. Resources created in that gap are then not collected, as if there
// had been no leader.
func (s Stored) WithUnled(span Span) Stored {
	all := append(append([]Span{}, s.Unled...), span)
	if len(all) > mostSpans {
		first := 0
		for i := range len(all) - 1 {
			if all[i+1].From.Sub(all[i].To) < all[first+1].From.Sub(all[first].To) {
				first = i
			}
		}
		all[first].To = all[first+1].To
		all = slices.Delete(all, first+1, first+2)
	}
	s.Unled = all
	return s
}

// next returns a copy that the round may change. The fields that each round computes again are empty.
func (m Memory) next() Memory {
	m.Lost, m.Tried, m.Asked, m.Servers = copyOf(m.Lost), copyOf(m.Tried), copyOf(m.Asked), copyOf(m.Servers)
	m.Orphans, m.Drains = map[string]time.Time{}, map[string]time.Time{}
	return m
}

// copyOf returns a copy of m that is never nil.
func copyOf[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}

// site identifies a project; see [cloud.Project].
type site struct {
	Cloud string `json:"cloud,omitempty"`
	Place string `json:"place,omitempty"`
}

func siteOf(p *cloud.Project) site { return site{p.Cloud, p.Place} }

// project returns the name of the cloud and the project's ID, which is the last word of Place. The other words of Place may
// change: the URL of Keystone and the name of the region.
func (s site) project() string {
	return s.Cloud + " " + s.Place[strings.LastIndexByte(s.Place, ' ')+1:]
}

func (s site) String() string { return strings.TrimSpace(s.Cloud + " " + s.Place) }

const (
	// minLosses is the number of losses that is always allowed, however few servers, Nodes or Machines exist. A loss is a server
	// or Node without a Machine, or a Machine that vanished without a reported deletion.
	minLosses = 3
	// serversShare and machinesShare are divisors: beyond minLosses, at most a tenth of the servers or Nodes may be without a
	// Machine, and at most a fifth of the Machines may vanish.
	serversShare  = 10
	machinesShare = 5
)

// mostLosses returns how many losses are allowed among all servers, Nodes or Machines: minLosses or all/share, whichever is
// larger.
func mostLosses(all, share int) int { return max(minLosses, all/share) }

// tally counts servers or Nodes: of is their number, and lost is the number of those without a Machine.
type tally struct{ lost, of int }

// excess returns by how many the servers or Nodes without a Machine exceed the limit. A positive result means that there are too
// many.
func (t tally) excess() int { return t.lost - mostLosses(t.of, serversShare) }

// tallies holds the tally of each project.
type tallies map[site]tally

func (t tallies) add(s site, lives bool) {
	one := t[s]
	if one.of++; !lives {
		one.lost++
	}
	t[s] = one
}

// sum returns the tally of all projects together.
func (t tallies) sum() (all tally) {
	for _, one := range t {
		all.lost, all.of = all.lost+one.lost, all.of+one.of
	}
	return all
}

// tooMany reports in found whether too many servers or Nodes have no Machine, in a single project or in all projects together.
// worst is the project with the largest excess. everywhere is false when only worst has too many and the other projects are
// within their limits. In that case the collection stops only in worst, for example in the project of one tenant.
func (t tallies) tooMany() (worst site, found, everywhere bool) {
	alone := 0
	var sites []site
	for s, one := range t {
		sites = append(sites, s)
		if one.excess() > 0 {
			alone++
		}
	}
	all := t.sum()
	if all.excess() <= 0 && alone == 0 {
		return worst, false, false
	}
	worst = slices.MaxFunc(sites, func(a, b site) int {
		return cmp.Or(cmp.Compare(t[a].excess(), t[b].excess()), cmp.Compare(t[a].lost, t[b].lost), cmp.Compare(a.String(), b.String()))
	})
	rest := tally{all.lost - t[worst].lost, all.of - t[worst].of}
	return worst, true, alone > 1 || rest.excess() > 0
}
