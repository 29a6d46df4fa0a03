package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// order is the order in which resources are deleted.
var order = []cloud.ResourceKind{cloud.ResourceServer, cloud.ResourceFloatingIP, cloud.ResourcePort}

// findResources finds the resources without a Machine in all projects that are completely known.
func (j *judgement) findResources() {
	var found []placed
	ownerless := map[home]bool{}
	servers := tallies{}
	for i := range j.Projects {
		p := &j.Projects[i]
		if why := unfitProject(p); why.Reason != "" {
			j.verdict.Skipped = append(j.verdict.Skipped, why)
			continue
		}
		at := siteOf(p)
		for k := range p.Resources {
			r := &p.Resources[k]
			lives := j.lives(r.Machine)
			if r.Kind == cloud.ResourceServer {
				servers.add(at, lives)
				ownerless[home{at, r.Machine}] = !lives
			}
			if !lives {
				found = append(found, placed{*r, at})
			}
		}
	}
	j.countServers(servers)
	slices.SortStableFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range found {
		j.verdict.Orphans = append(j.verdict.Orphans, j.resource(r, ownerless))
	}
}

// placed is a resource together with its project.
type placed struct {
	cloud.Resource
	at site
}

// home is the project in which a Machine has its resources.
type home struct {
	at      site
	machine types.UID
}

// countServers stops the collection when too many servers have no Machine. It also counts each project alone: many servers in
// one project, for example a tenant's, must not hide that most servers of another project have no Machine.
func (j *judgement) countServers(servers tallies) {
	worst, found, everywhere := servers.tooMany()
	switch {
	case !found || j.Confirmed:
	case everywhere:
		all := servers.sum()
		message := fmt.Sprintf("%d of %d servers with the owner tags of this cluster in all projects have no Machine; this looks as if etcd was restored from a backup", all.lost, all.of)
		j.verdict.Stops = append(j.verdict.Stops, Stop{Reason: TooMany, Message: message + remedy})
	default:
		message := fmt.Sprintf("%d of %d servers with the owner tags of this cluster in %s have no Machine; this looks as if etcd was restored from a backup", servers[worst].lost, servers[worst].of, j.nameOf(worst))
		j.stopIn(worst, Stop{TooMany, message + remedy, j.nameOf(worst)})
	}
}

// lives reports whether the list or the watch shows that a Machine exists. While the list and the watch disagree, the Machine
// counts as existing, and nothing of it is deleted.
func (j *judgement) lives(uid types.UID) bool {
	return j.living.uids[uid] || j.History.Seen[uid].Exists
}

// resource returns a resource without a Machine as an orphan. ownerless are the Machines that do not exist any more but still
// have a server.
func (j *judgement) resource(r placed, ownerless map[home]bool) Orphan {
	o := Orphan{Kind: string(r.Kind), ID: r.ID, Name: r.Name, Machine: r.Machine, Resource: r.Resource, sites: []site{r.at}}
	created := r.Seen
	if r.Kind == cloud.ResourceServer && !r.Created.IsZero() && r.Created.Before(created) {
		created = r.Created
	}
	early := j.found(o.key(), created)
	switch {
	case r.Kind == cloud.ResourceServer:
		o.Node, o.Why = j.nodeOf(r.Resource)
		o.Why = cmp.Or(j.protected(r.Resource), early, j.vanished(r.Machine), o.Why)
	case r.UsedBy != "":
		o.Why = fmt.Sprintf("server %s uses it", r.UsedBy)
	case ownerless[home{r.at, r.Machine}]:
		o.Why = "it waits until the server of the same Machine is gone"
	default:
		o.Why = cmp.Or(early, j.vanished(r.Machine))
	}
	return o
}

// vanished returns why drover does not collect the resources of a missing Machine: this process has seen the Machine, and the API
// server has not reported that the Machine was deleted. Without this check, a Machine that both the list and the watch do not
// show for a while would count as deleted.
func (j *judgement) vanished(machine types.UID) string {
	last, seen := j.History.Seen[machine]
	if !seen || last.Leaving || j.Confirmed {
		return ""
	}
	return "its Machine has vanished although the API server has reported no deletion" + remedy
}

// protected returns why a server whose own Machine does not exist is nevertheless never collected: another Machine, which exists,
// names the server's ID or has its name.
func (j *judgement) protected(r cloud.Resource) string {
	if j.living.servers[r.Key] || j.living.nodes[r.Name] {
		return "a Machine refers to this server or has the same name; an operator may let that Machine adopt the server"
	}
	return ""
}

// nodeOf returns the Node of a server that has no Machine; nil when the server has no Node. why is the reason not to delete
// the server together with that Node; empty when it may be deleted.
func (j *judgement) nodeOf(r cloud.Resource) (n *Node, why string) {
	n = j.byServer[r.Key]
	if n == nil {
		n = j.byOwner[r.Machine]
	}
	if n == nil {
		// A Node that has neither a provider ID nor an owner label has the name of its server.
		n = j.byName[r.Name]
	}
	if n == nil {
		return nil, ""
	}
	works := n.worked(j.Now, j.Age)
	switch {
	case n.ControlPlane != "":
		why = fmt.Sprintf("its node %s belongs to the control plane: it has %s", n.Name, n.ControlPlane)
	case n.Server != r.Key && n.ProviderID != "":
		why = fmt.Sprintf("the node with its name, %s, has the provider ID %s: delete this server by hand if it is not the node's server", n.Name, n.ProviderID)
	case j.hasMachine(n):
		why = fmt.Sprintf("its node %s belongs to a Machine that exists", n.Name)
	case works && !n.hasLabels():
		why = fmt.Sprintf("its node %s is Ready, or was lately, and never had drover's labels: drain the node, and delete the server by hand", n.Name)
	case works && !j.saw(r) && !j.Confirmed:
		why = fmt.Sprintf("its node %s is Ready, or was lately, and its Machine either was never seen by this drover, or may have been deleted together with a CRD", n.Name) + remedy
	}
	return n, why
}

// saw reports whether this process has seen the server's Machine, and the server is not older than the CRDs. The Machine of an
// older server may have been deleted together with an earlier CRD of the same name, perhaps by mistake.
func (j *judgement) saw(r cloud.Resource) bool {
	_, seen := j.History.Seen[r.Machine]
	return seen && !r.Created.Before(j.Defined)
}

// compareResources compares the creation times of resources without a Machine with the known leaders of the cluster. A
// resource that no leader of this cluster can have created belongs to another cluster, or to a time before a restore. Such a
// resource stops the collection in its project.
func (j *judgement) compareResources() {
	for i := range j.verdict.Orphans {
		r, at := &j.verdict.Orphans[i].Resource, j.verdict.Orphans[i].sites[0]
		if r.Created.IsZero() {
			continue
		}
		if _, seen := j.History.Seen[r.Machine]; seen {
			continue
		}
		born := r.Created.UTC().Format(time.RFC3339)
		for _, span := range j.memory.Stored.Unled {
			if span.Contains(r.Created) {
				j.holdIn(at, Forgotten, "%s %s was created at %s, when by the records of this cluster it had no leading drover (%s to %s): this cluster was restored from a backup, or another cluster has the same ID",
					r.Kind, r.ID, born, span.From.UTC().Format(time.RFC3339), span.To.UTC().Format(time.RFC3339))
			}
		}
		if !j.History.Since.IsZero() && r.Created.After(j.History.Since.Add(-clockMargin)) {
			j.holdIn(at, Foreign, "%s %s was created at %s for a Machine that this drover, the leader since %s, has never seen: another drover works with the same cluster ID",
				r.Kind, r.ID, born, j.History.Since.UTC().Format(time.RFC3339))
		}
	}
}
