package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// order is the order in which resources are deleted.
var order = []cloud.ResourceKind{cloud.ResourceServer, cloud.ResourceFloatingIP, cloud.ResourcePort}

// home is the project in which a Machine has its resources.
type home struct {
	place   string
	machine types.UID
}

func homeOf(r *cloud.Resource) home { return home{r.Place, r.Machine} }

// findResources finds the resources without a Machine in all projects that are completely known.
func (j *judgement) findResources() {
	var found []*cloud.Resource
	hasServer := map[home]bool{}
	for i := range j.Projects {
		p := &j.Projects[i]
		if p.Unknown != "" {
			j.verdict.Stops = append(j.verdict.Stops, Stop{Incomplete, p.Unknown})
			continue
		}
		for k := range p.Resources {
			r := &p.Resources[k]
			if j.living.uids[r.Machine] {
				continue
			}
			found = append(found, r)
			hasServer[homeOf(r)] = hasServer[homeOf(r)] || r.Kind == cloud.ResourceServer
		}
	}
	slices.SortStableFunc(found, func(a, b *cloud.Resource) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range found {
		j.verdict.Orphans = append(j.verdict.Orphans, j.resource(r, hasServer[homeOf(r)]))
	}
}

// resource returns a resource without a Machine as an orphan. hasServer reports whether the Machine still has a server.
func (j *judgement) resource(r *cloud.Resource, hasServer bool) Orphan {
	o := Orphan{Kind: string(r.Kind), ID: r.ID, Name: r.Name, Machine: r.Machine, Resource: *r}
	j.prove(&o, r.Machine)
	switch {
	case r.Deleting:
		o.block(BeingDeleted)
	case r.Kind == cloud.ResourceServer:
		var why string
		o.Node, why = j.nodeOf(r)
		o.block(cmp.Or(j.protected(r), why))
	case r.UsedBy != "":
		o.block(fmt.Sprintf("server %s uses it", r.UsedBy))
	case hasServer:
		o.block("it waits until the server of the same Machine is gone")
	}
	return o
}

// block sets why an orphan is not deleted, whatever is known about its Machine. An empty why changes nothing.
func (o *Orphan) block(why string) {
	if why != "" {
		o.Why, o.Unconfirmed, o.Blocked = why, false, true
	}
}

// protected returns why a server whose own Machine does not exist is nevertheless never collected: another Machine, which exists,
// names the server's ID or has its name.
func (j *judgement) protected(r *cloud.Resource) string {
	if j.living.servers[r.Key] || j.living.nodes[r.Name] {
		return "a Machine refers to this server or has the same name; an operator may let that Machine adopt the server"
	}
	return ""
}

// nodeOf returns the Node of a server that has no Machine; nil when the server has no Node. why is the reason not to delete
// the server together with that Node; empty when it may be deleted.
func (j *judgement) nodeOf(r *cloud.Resource) (n *Node, why string) {
	n = cmp.Or(j.byServer[r.Key], j.byOwner[r.Machine])
	if n == nil {
		// A Node that has neither a provider ID nor an owner label has the name of its server.
		n = j.byName[r.Name]
	}
	switch {
	case n == nil:
	case n.ControlPlane != "":
		why = fmt.Sprintf("its node %s belongs to the control plane: it has %s", n.Name, n.ControlPlane)
	case n.Server != r.Key && n.ProviderID != "":
		why = fmt.Sprintf("the node with its name, %s, has the provider ID %s: delete this server by hand if it is not the node's server", n.Name, n.ProviderID)
	case j.hasMachine(n):
		why = fmt.Sprintf("its node %s belongs to a Machine that exists", n.Name)
	case n.worked(j.Now, j.Age) && !n.hasLabels():
		why = fmt.Sprintf("its node %s is Ready, or was lately, and never had drover's labels: drain the node, and delete the server by hand", n.Name)
	}
	return n, why
}
