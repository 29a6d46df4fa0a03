package verdict

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// judgement is the state of the decision in one round.
type judgement struct {
	*Snapshot
	verdict Verdict
	living  living
	// left are the Machines that have a resource or Node left.
	left map[types.UID]bool
	// byServer finds a Node by its server, byOwner finds a Node without a server by the UID in its label, and byName finds
	// any Node by its name.
	byServer map[cloud.ServerID]*Node
	byOwner  map[types.UID]*Node
	byName   map[string]*Node
	// servers are the tagged servers that exist, and serverNames their names.
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
	n := len(j.Machines)
	j.living = living{
		uids: make(map[types.UID]bool, n), names: make(map[string]bool, n), servers: make(map[cloud.ServerID]bool, n), nodes: make(map[string]bool, n),
	}
	for i := range j.Machines {
		m := &j.Machines[i]
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
	j.servers, j.serverNames = map[cloud.ServerID]bool{}, map[string]bool{}
	for i := range j.Projects {
		for k := range j.Projects[i].Resources {
			r := &j.Projects[i].Resources[k]
			j.servers[r.Key], j.serverNames[r.Name] = true, true
		}
	}
	j.left = Left(j.Projects, j.Nodes)
}

// incomplete returns why the absence of a server from all projects does not prove that the server is gone; empty when it
// does.
func (j *judgement) incomplete() string {
	if len(j.Projects) == 0 {
		return "no project is known"
	}
	for i := range j.Projects {
		if doubt := j.Projects[i].Unknown; doubt != "" {
			return doubt
		}
	}
	return ""
}

const remedy = "To have them deleted, set the annotation " + v1alpha1.AnnotationCollect + " of this ConfigMap to "

// decide decides which orphans are deleted, and says which need a confirmation.
func (j *judgement) decide() {
	v := &j.verdict
	told := map[string]bool{}
	for i := range v.Orphans {
		o := &v.Orphans[i]
		switch {
		case o.Unconfirmed:
			message := "Nodes need a confirmation. " + remedy + "their names"
			if o.Kind != KindNode {
				project := Project(&o.Resource)
				message = "Orphans in " + project + " need a confirmation. " + remedy + "their IDs, the UIDs of their Machines, or " + project
			}
			if !told[message] {
				told[message] = true
				v.Stops = append(v.Stops, Stop{Unconfirmed, message})
			}
		case o.Why != "":
		case j.ReportOnly:
			o.Why = "it is only reported (--orphans=report)"
		default:
			o.Delete, o.Why = true, BeingDeleted
		}
	}
}
