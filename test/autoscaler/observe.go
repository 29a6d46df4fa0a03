package autoscaler

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// observe asks the provider for everything that a loop needs: groups, the group and options of each node, templates, target sizes
// and instances.
func (a *Autoscaler) observe(ctx context.Context, nodes []*corev1.Node, on map[string][]*corev1.Pod, pending []*corev1.Pod) (*View, error) {
	v := &View{Now: a.o.Clock.Now(), Pending: pending}
	groups, err := a.provider.list(ctx)
	if err != nil {
		// If the request fails, cluster-autoscaler continues its loop without groups, and forgets their state.
		a.o.Log.Error(err, "Failed to list groups: the loop goes on without groups")
	}
	a.forget(groups)
	a.observeNodes(ctx, v, nodes, on)
	for _, g := range groups {
		view, err := a.observeGroup(ctx, v, g)
		if err != nil {
			return nil, err
		}
		v.Groups = append(v.Groups, view)
	}
	return v, nil
}

// forget drops the state of groups that are not listed any more: scale-ups, instance lists and templates. Back-offs stay.
func (a *Autoscaler) forget(groups []Group) {
	listed := sets.New[string]()
	for _, g := range groups {
		listed.Insert(g.ID)
	}
	maps.DeleteFunc(a.memory.requests, func(id string, _ request) bool { return !listed.Has(id) })
	maps.DeleteFunc(a.templates, func(id string, _ *corev1.Node) bool { return !listed.Has(id) })
	a.instances.keep(listed)
}

// observeNodes requests the group of each node, and then, like cluster-autoscaler, twice the group's options.
func (a *Autoscaler) observeNodes(ctx context.Context, v *View, nodes []*corev1.Node, on map[string][]*corev1.Pod) {
	startup := a.o.MaxNodeStartupTime
	for _, n := range nodes {
		g, err := a.provider.forNode(ctx, n)
		if err != nil {
			a.o.Log.Error(err, "Failed to read the group of a node: it counts as without a group", "node", n.Name)
		}
		if g.ID != "" {
			for range 2 {
				// cluster-autoscaler uses one variable for all nodes, so a node without options inherits those of the previous one.
				if s, err := a.settings(ctx, g.ID); err == nil {
					startup = s.StartupTime
				}
			}
		}
		v.Nodes = append(v.Nodes, NodeView{Node: n, Group: g.ID, Min: g.Min, Startup: startup, Taints: a.o.StartupTaints, GPULabel: a.gpuLabel, Pods: on[n.Name]})
	}
}

// observeGroup reads the state of a group. An error ends the loop for all groups.
func (a *Autoscaler) observeGroup(ctx context.Context, v *View, g Group) (GroupView, error) {
	view := GroupView{Group: g, Provision: a.o.MaxNodeProvisionTime}
	var err error
	if view.Template, err = a.template(ctx, v, g.ID); err != nil {
		a.o.Log.Error(err, "Failed to read the template of a group", "group", g.ID)
	}
	if view.Target, err = a.provider.targetSize(ctx, g.ID); err != nil {
		return view, err
	}
	if _, growing := a.memory.requests[g.ID]; growing {
		a.instances.invalidate(g.ID)
	}
	if view.Instances, err = a.instances.get(ctx, g.ID); err != nil {
		return view, err
	}
	view.Provision = a.provision(ctx, v, &view)
	return view, nil
}

// provision returns how long an instance may take to become a node. It requests the group's options only while a node of the
// group is missing. If the request fails, no instance is too late in this loop.
func (a *Autoscaler) provision(ctx context.Context, v *View, g *GroupView) time.Duration {
	const never = 1<<63 - 1
	waiting := len(v.unregistered(g))
	if _, growing := a.memory.requests[g.ID]; growing {
		waiting++
	}
	if _, wrong := a.memory.incorrect[g.ID]; wrong {
		waiting++
	}
	out := a.o.MaxNodeProvisionTime
	for range min(waiting, 2) {
		s, err := a.settings(ctx, g.ID)
		if err != nil {
			a.o.Log.Error(err, "Failed to read the provisioning time of a group", "group", g.ID)
			return never
		}
		out = s.ProvisionTime
	}
	return out
}

// template returns a node of the group that has been ready for a while, otherwise the last such node, otherwise the provider's template,
// otherwise any node of the group.
func (a *Autoscaler) template(ctx context.Context, v *View, group string) (*corev1.Node, error) {
	var other *corev1.Node
	for _, n := range v.Nodes {
		if n.Group != group {
			continue
		}
		if isExample(n.Node, v.Now, n.Taints, n.GPULabel) {
			a.templates[group] = asTemplate(n.Node, a.o.StartupTaints)
			return a.templates[group], nil
		}
		other = n.Node
	}
	if cached := a.templates[group]; cached != nil {
		return cached, nil
	}
	n, err := a.provider.template(ctx, group)
	if n == nil && other != nil {
		n, err = other, nil
	}
	if n == nil || err != nil {
		return nil, err
	}
	return asTemplate(n, a.o.StartupTaints), nil
}

// upcomingNode returns the node that represents the group's nth upcoming node.
func upcomingNode(g *GroupView, n int) *corev1.Node {
	node := g.Template.DeepCopy()
	node.Name = fmt.Sprintf("template-node-for-%s-%d-upcoming-%d", g.ID, len(g.ID), n)
	return node
}
