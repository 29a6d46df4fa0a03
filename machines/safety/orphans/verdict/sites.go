package verdict

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/cloud"
)

// site identifies a project: see [cloud.Project].
type site struct {
	Cloud string `json:"cloud,omitempty"`
	Place string `json:"place,omitempty"`
}

func siteOf(p *cloud.Project) site { return site{p.Cloud, p.Place} }

func (s site) String() string { return strings.TrimSpace(s.Cloud + " " + s.Place) }

const (
	// minLosses is how many are never too many.
	minLosses = 3
	// serversShare and machinesShare are the shares of the whole beyond which losses are too many: 10 % and 20 %.
	serversShare  = 10
	machinesShare = 5
)

// mostLosses returns how many of all may be lost: three, or a share.
func mostLosses(all, share int) int { return max(minLosses, all/share) }

// tally counts servers or Nodes: lost are those without a Machine.
type tally struct{ lost, of int }

// excess returns by how many more are lost than may be. It is positive when too many are.
func (t tally) excess() int { return t.lost - mostLosses(t.of, serversShare) }

// tallies are those of all projects.
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

// tooMany reports whether too many are lost, in a single project or in all together. One project, which may be a tenant's, does not
// stop the others: when too many are lost only because of the worst one, worst is that project, and everywhere is false.
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
