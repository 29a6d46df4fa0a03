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
	// Stored survives the process.
	Stored Stored
	// Version is the highest resource version of a list of Machines.
	Version string
	// Living are the Machines of the last list. Lost are those that vanished although no deletion was reported, with the time
	// at which each was found missing.
	Living map[types.UID]bool
	Lost   map[types.UID]time.Time
	// Orphans are the orphans of the last round, by kind and ID, with the time of the round that found each.
	Orphans map[string]time.Time
	// Drains holds when the drain of an orphan's Node began, by kind and ID of the orphan.
	Drains map[string]time.Time
	// Servers are the servers with the owner tags of this cluster that a round has seen, each with the projects in which it was
	// seen, as long as they exist or a Node names them.
	Servers map[cloud.ServerID][]site
	// Tried holds when an orphan was last due for deletion, Asked when its deletion was accepted, by kind and ID.
	Tried, Asked map[string]time.Time
}

// Accepted records that the cloud or the API server has accepted the deletion of an orphan. It reports whether that is the
// first time.
func (m *Memory) Accepted(o *Orphan, now time.Time) (first bool) {
	_, again := m.Asked[o.key()]
	m.Asked[o.key()] = now
	return !again
}

// Stored is the part of a [Memory] that a successor needs.
type Stored struct {
	// ClusterID is the ID for which orphans are collected. While the present ID differs, they are only reported.
	ClusterID string `json:"clusterID,omitempty"`
	// Hold is why nothing at all is collected before an operator confirms it; its Reason is empty when there is none. Holds are
	// the same for single projects.
	Hold  Stop   `json:"hold,omitzero"`
	Holds []hold `json:"holds,omitempty"`
	// Unled are spans of time in which, as far as the cluster knows, none of its drovers was the leader. Resources from such a
	// span were created by a drover that the cluster does not remember, or by another cluster with the same ID.
	Unled []Span `json:"unled,omitempty"`
}

// hold is why nothing is collected in one project before an operator confirms it.
type hold struct {
	site
	Stop
}

// mostHolds bounds Stored.Holds. 200 of them take about 120 KiB.
const mostHolds = 200

// mostSpans bounds Stored.Unled. 200 of them take about 20 KiB.
const mostSpans = 200

// WithUnled returns a Stored with one more span without a leader. When there are too many, it joins the two with the shortest
// time between them: resources from that time are then not collected either.
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

// next returns a copy that the round may change, without the fields that each round computes again.
func (m Memory) next() Memory {
	m.Lost, m.Tried, m.Asked, m.Servers = copyOf(m.Lost), copyOf(m.Tried), copyOf(m.Asked), copyOf(m.Servers)
	m.Orphans, m.Drains = map[string]time.Time{}, map[string]time.Time{}
	return m
}

// copyOf returns a copy that is not nil.
func copyOf[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}

// site identifies a project: see [cloud.Project].
type site struct {
	Cloud string `json:"cloud,omitempty"`
	Place string `json:"place,omitempty"`
}

func siteOf(p *cloud.Project) site { return site{p.Cloud, p.Place} }

// project returns the cloud and the last word of the place. With several words, that is the ID of the project, which neither
// another URL of the same Keystone nor another name of the region changes.
func (s site) project() string {
	return s.Cloud + " " + s.Place[strings.LastIndexByte(s.Place, ' ')+1:]
}

func (s site) String() string { return strings.TrimSpace(s.Cloud + " " + s.Place) }

const (
	// minLosses is the number of losses that is never too many.
	minLosses = 3
	// serversShare and machinesShare are the divisors for the shares of the whole beyond which losses are too many: 10 % and 20
	// %.
	serversShare  = 10
	machinesShare = 5
)

// mostLosses returns how many of all may be lost: three, or a share.
func mostLosses(all, share int) int { return max(minLosses, all/share) }

// tally counts servers or Nodes: lost are those without a Machine.
type tally struct{ lost, of int }

// excess returns by how many the losses exceed the limit; positive when too many are lost.
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

// tooMany reports whether too many are lost, in a single project or in all together. One project, for example a tenant's, does not
// stop the others: when too many are lost only because of the worst project, worst is that project, and everywhere is false.
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
