package verdict

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/machines/cloud"
)

// findResources finds the resources without a Machine in all projects that are completely known.
func (j *judgement) findResources() {
	for i := range j.Projects {
		p := &j.Projects[i]
		if p.Unknown != "" {
			j.Stops = append(j.Stops, Stop{Incomplete, p.Unknown})
			continue
		}
		for k := range p.Resources {
			if r := &p.Resources[k]; !j.living[r.Machine] {
				j.Orphans = append(j.Orphans, j.resource(r))
			}
		}
	}
}

// resource returns a resource without a Machine as an orphan.
func (j *judgement) resource(r *cloud.Resource) Orphan {
	o := Orphan{Resource: *r}
	j.prove(&o)
	switch {
	case r.Deleting:
		o.block(BeingDeleted)
	case r.Kind == cloud.ResourceServer:
		o.Node = cmp.Or(j.nodes[r.Key], j.nodes[r.Machine], j.nodes[r.Name])
		o.block(j.keepsServer(r, o.Node))
	case r.UsedBy != "":
		o.block(fmt.Sprintf("server %s uses it", r.UsedBy))
	case j.listed[home{r.Place, r.Machine}]:
		o.block("it waits until the server of the same Machine is gone")
	}
	return o
}

// keepsServer returns why a server whose own Machine does not exist is nevertheless never collected together with its Node n; empty when it
// may be. n is nil when the server has no Node.
func (j *judgement) keepsServer(r *cloud.Resource, n *Node) string {
	switch {
	case j.living[r.Key] || j.living[r.Name]:
		return "a Machine refers to this server or has the same name; an operator may let that Machine adopt the server"
	case n == nil:
	case n.ControlPlane != "":
		return fmt.Sprintf("its node %s belongs to the control plane: it has %s", n.Name, n.ControlPlane)
	case n.Server != r.Key && n.ProviderID != "":
		return fmt.Sprintf("the node with its name, %s, has the provider ID %s: delete this server by hand if it is not the node's server", n.Name, n.ProviderID)
	case j.hasMachine(n):
		return fmt.Sprintf("its node %s belongs to a Machine that exists", n.Name)
	case n.worked(j.Now, j.Age) && !n.hasLabels():
		return fmt.Sprintf("its node %s is Ready, or was lately, and never had drover's labels: drain the node, and delete the server by hand", n.Name)
	}
	return ""
}
