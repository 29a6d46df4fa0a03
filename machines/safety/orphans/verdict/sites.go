package verdict

import (
	"cmp"
	"fmt"
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

// project returns the project at a site; nil when it is not known now.
func (j *judgement) project(s site) *cloud.Project {
	for i := range j.Projects {
		if siteOf(&j.Projects[i]) == s {
			return &j.Projects[i]
		}
	}
	return nil
}

// nameOf returns the name of the project at a site.
func (j *judgement) nameOf(s site) string {
	if p := j.project(s); p != nil {
		return p.Name
	}
	return s.String()
}

// hold is why nothing is collected in one project before an operator confirms it.
type hold struct {
	site
	Stop
}

// mostHolds bounds Stored.Holds. All of them take about 120 KiB.
const mostHolds = 200

// holdIn notes why nothing is collected in a project before an operator confirms it. The first reason stays. When too many projects
// are held, nothing is collected anywhere.
func (j *judgement) holdIn(s site, reason Reason, format string, args ...any) {
	held := j.memory.Stored.Holds
	if j.Confirmed || slices.ContainsFunc(held, func(h hold) bool { return h.site == s }) {
		return
	}
	if len(held) >= mostHolds {
		j.hold(reason, "more than %d projects are held, of which the last one is %s", mostHolds, j.nameOf(s))
		return
	}
	stop := Stop{reason, fmt.Sprintf(format, args...) + remedy, j.nameOf(s)}
	j.memory.Stored.Holds = append(slices.Clip(held), hold{s, stop})
}

// stopIn has nothing collected in a project in this pass. The first reason counts.
func (j *judgement) stopIn(s site, stop Stop) {
	if _, known := j.stopped[s]; !known {
		j.stopped[s] = stop
	}
	j.verdict.Skipped = append(j.verdict.Skipped, stop)
}

// stopOf returns why an orphan is not collected, whatever it is itself like: for a reason that stops everything, or all of a project
// that it is in. Its Reason is empty when there is none.
func (j *judgement) stopOf(o *Orphan) Stop {
	if len(j.verdict.Stops) > 0 {
		return j.verdict.Stops[0]
	}
	for _, s := range o.sites {
		if stop := j.stopped[s]; stop.Reason != "" {
			return stop
		}
	}
	return Stop{}
}

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
