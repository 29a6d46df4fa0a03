package verdict

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/drover-project/drover/machines/cloud"
)

// judgement is the state of the decision in one round.
type judgement struct {
	*Snapshot
	before  Memory
	memory  Memory
	verdict Verdict
	living  living
	// stopped holds the reason why nothing is collected in a project, for each project with such a reason.
	stopped map[site]Stop
	// byServer finds a Node by its server, byOwner finds a Node without a server by the UID in its label, and byName finds
	// any Node by its name.
	byServer map[cloud.ServerID]*Node
	byOwner  map[types.UID]*Node
	byName   map[string]*Node
	// servers are the tagged servers that exist, and serverNames their names. The maps are nil until they are needed.
	servers     map[cloud.ServerID]bool
	serverNames map[string]bool
}

// living is an index of the Machines that exist.
type living struct {
	uids    map[types.UID]bool
	names   map[string]bool
	servers map[cloud.ServerID]bool
	// nodes are the names of Nodes and servers that Machines have or will have.
	nodes map[string]bool
}

func (j *judgement) index() {
	n := len(j.Machines.All)
	j.living = living{
		uids: make(map[types.UID]bool, n), names: make(map[string]bool, n), servers: make(map[cloud.ServerID]bool, n), nodes: make(map[string]bool, n),
	}
	for i := range j.Machines.All {
		m := &j.Machines.All[i]
		j.living.uids[m.UID], j.living.names[m.Name] = true, true
		j.living.nodes[m.ServerName], j.living.nodes[m.NodeName] = true, true
		j.living.servers[m.Server] = true
	}
	delete(j.living.nodes, "")
	delete(j.living.servers, "")
	j.byServer, j.byOwner, j.byName = make(map[cloud.ServerID]*Node, len(j.Nodes)), map[types.UID]*Node{}, make(map[string]*Node, len(j.Nodes))
	for i := range j.Nodes {
		n := &j.Nodes[i]
		j.byName[n.Name] = n
		if n.Server != "" {
			j.byServer[n.Server] = n
		} else if n.OwnedBy != "" {
			j.byOwner[n.OwnedBy] = n
		}
	}
}

// lossWindow is how long a Machine that vanished without a reported deletion counts towards the limit on such Machines.
const lossWindow = 24 * time.Hour

// compareMachines compares the list of Machines with earlier lists. If it is older than an earlier list, or lacks Machines
// whose deletion was not reported, then it comes from a restored etcd or is incomplete.
func (j *judgement) compareMachines() {
	m := &j.memory
	if order, err := resourceversion.CompareResourceVersion(j.Machines.Version, m.Version); err == nil && order < 0 {
		j.hold(Older, "the list of Machines is older than an earlier one (resource version %s after %s), as after a restore of etcd", j.Machines.Version, m.Version)
	}
	m.Version = j.Machines.Version
	m.Living = j.living.uids
	if j.Confirmed {
		return
	}
	known := len(j.before.Living)
	for uid, missed := range m.Lost {
		known++
		if j.living.uids[uid] || m.Stored.Hold.Reason != Lost && j.Now.Sub(missed) > lossWindow {
			delete(m.Lost, uid)
		}
	}
	for uid := range j.before.Living {
		if !j.living.uids[uid] && !j.History.Seen[uid].Leaving {
			m.Lost[uid] = j.Now
		}
	}
	if m.Stored.Hold.Reason == Lost && len(j.before.Lost) > 0 && len(m.Lost) == 0 {
		m.Stored.Hold = Stop{}
	}
	if len(m.Lost) > mostLosses(known, machinesShare) {
		j.hold(Lost, "%d of %d Machines have vanished although the API server reported no deletion", len(m.Lost), known)
	}
}

// acceptClusterID starts the collection for a new cluster ID once a round has listed all projects and has found no resource
// or Node without a Machine. A Node that outlives its Machine does not count: it carries no cluster ID, and a kubelet can register one.
func (j *judgement) acceptClusterID() {
	switch {
	case j.memory.Stored.ClusterID == j.ClusterID:
	case slices.ContainsFunc(j.verdict.Orphans, func(o Orphan) bool { return o.Why != Outlives }):
		message := fmt.Sprintf("drover has not used the cluster ID %s before, and there are resources tagged with it that have no Machine: they may be another cluster's", j.ClusterID) + remedy
		j.verdict.Stops = append(j.verdict.Stops, Stop{Reason: NewID, Message: message})
	case len(j.Projects) > 0 && len(j.verdict.Skipped) == 0 && j.memory.Stored.Hold.Reason == "" && len(j.memory.Stored.Holds) == 0:
		j.memory.Stored.ClusterID = j.ClusterID
	}
}

// found records that a resource or Node has no Machine in this round. It returns why the orphan may not be deleted yet: it is too
// young, or it was not an orphan in the previous round. It returns "" when the orphan may be deleted. created is the time of the
// orphan's creation, or of its first sighting.
func (j *judgement) found(key string, created time.Time) (why string) {
	since, again := j.before.Orphans[key]
	if !again {
		since = j.Now
	}
	j.memory.Orphans[key] = since
	switch {
	case j.Now.Sub(created) < j.Age:
		return fmt.Sprintf("it is younger than %s", j.Age)
	case !again:
		return "it is checked again in the next round"
	}
	return ""
}

// askAgain is the interval after which the deletion of an orphan that still exists is requested again.
const askAgain = time.Hour

// decide decides which orphans are deleted now. When more orphans are due than one round may delete, those that drover
// never tried to delete come first, and then those that it tried to delete longest ago, so that orphans which cannot
// be deleted do not delay others.
func (j *judgement) decide() {
	v := &j.verdict
	if held := j.memory.Stored.Hold; held.Reason != "" {
		v.Stops = append([]Stop{held}, v.Stops...)
	}
	for _, held := range j.memory.Stored.Holds {
		j.stopIn(held.site, held.Stop)
	}
	stopped := len(v.Stops) > 0 || len(j.stopped) > 0 || j.ReportOnly
	if stopped {
		v.Marks = nil
	}
	j.limitExpulsions(stopped)
	j.forget()
	var due []*Orphan
	for i := range v.Orphans {
		if o := &v.Orphans[i]; o.Why == "" {
			if o.Why = j.notNow(o); o.Why == "" {
				due = append(due, o)
			}
		}
	}
	slices.SortStableFunc(due, func(a, b *Orphan) int { return j.memory.Tried[a.key()].Compare(j.memory.Tried[b.key()]) })
	for i, o := range due {
		if o.Delete = i < j.MaxPerPass; o.Delete {
			j.memory.Tried[o.key()] = j.Now
		} else {
			o.Why = fmt.Sprintf("it waits for the next round, because at most %d orphans are deleted in one round", j.MaxPerPass)
		}
		j.drain(o)
	}
}

// notNow returns why an orphan that may be deleted is not deleted in this round; empty when it is due. It also sets the
// orphan's field Stopped.
func (j *judgement) notNow(o *Orphan) string {
	asked, isAsked := j.memory.Asked[o.key()]
	switch stop := j.stopOf(o); {
	case stop.Reason != "":
		o.Stopped = stop.Reason
		return "it is only reported: " + stop.Message
	case j.ReportOnly:
		return "it is only reported (--orphans=report)"
	case isAsked && j.Now.Sub(asked) < askAgain:
		return BeingDeleted
	}
	return ""
}

// forget removes from the memory the resources and Nodes that are no longer orphans.
func (j *judgement) forget() {
	over := func(key string, _ time.Time) bool {
		_, found := j.memory.Orphans[key]
		return !found
	}
	maps.DeleteFunc(j.memory.Tried, over)
	maps.DeleteFunc(j.memory.Asked, over)
}

// drain records when the drain of a server's Node began. The drain continues while the server waits behind other orphans.
func (j *judgement) drain(o *Orphan) {
	since, begun := j.before.Drains[o.key()]
	switch {
	case o.Kind == KindNode || o.Node == nil || !begun && !o.Delete:
		return
	case !begun:
		since = j.Now
	}
	j.memory.Drains[o.key()] = since
	o.DrainUntil = since.Add(j.DrainTimeout)
}

// project returns the project at a site; nil when the project is not known now.
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

// unfitProject returns why nothing in a project can be decided. The Reason of the result is empty when decisions are
// possible.
func unfitProject(p *cloud.Project) Stop {
	switch {
	case p.Unknown != "":
		return Stop{Incomplete, p.Unknown, p.Name}
	case p.Held != "":
		return Stop{Held, p.Name + ": " + p.Held, p.Name}
	}
	return Stop{}
}

// holdIn records why nothing is collected in a project until an operator confirms it. It keeps a reason that is recorded already.
// When too many projects have such a reason, nothing is collected anywhere.
func (j *judgement) holdIn(s site, reason Reason, format string, args ...any) {
	held := j.memory.Stored.Holds
	if j.Confirmed || slices.ContainsFunc(held, func(h hold) bool { return h.site == s }) {
		return
	}
	if len(held) >= mostHolds {
		j.hold(reason, "the deletion of orphans is on hold in more than %d projects; the last of them is %s", mostHolds, j.nameOf(s))
		return
	}
	stop := Stop{reason, fmt.Sprintf(format, args...) + remedy, j.nameOf(s)}
	j.memory.Stored.Holds = append(slices.Clip(held), hold{s, stop})
}

// stopIn stops the collection in a project for this round. It keeps an earlier reason if the project is stopped already.
func (j *judgement) stopIn(s site, stop Stop) {
	if _, known := j.stopped[s]; !known {
		j.stopped[s] = stop
	}
	j.verdict.Skipped = append(j.verdict.Skipped, stop)
}

// stopOf returns why all orphans, or all orphans in one of the projects of o, are not collected. A reason that waits for a
// confirmation applies to its project under any URL of the project's Keystone, because an operator may have changed the URL
// meanwhile. The Reason of the result is empty when no such reason exists.
func (j *judgement) stopOf(o *Orphan) Stop {
	if len(j.verdict.Stops) > 0 {
		return j.verdict.Stops[0]
	}
	for _, s := range o.sites {
		if stop := j.stopped[s]; stop.Reason != "" {
			return stop
		}
		for _, held := range j.memory.Stored.Holds {
			if held.project() == s.project() {
				return held.Stop
			}
		}
	}
	return Stop{}
}
