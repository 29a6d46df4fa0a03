package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-project/drover/proto"
)

// instancesExpire is how long the original trusts a group's instance list that nothing has invalidated.
const instancesExpire = 2 * time.Minute

// Autoscaler is the stand-in. Make it with [New].
type Autoscaler struct {
	o        Options
	provider *provider
	cluster  *cluster
	memory   *memory
	remover  *remover
	started  bool
	// instances are the last known lists, by group.
	instances map[string]instanceList
}

type instanceList struct {
	entries []Instance
	read    time.Time
}

// New makes the stand-in and waits until it has read the cluster.
func New(ctx context.Context, o Options) (*Autoscaler, error) {
	o = o.withDefaults()
	c, err := newCluster(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	p := newProvider(o.Provider, o.Timeout)
	return &Autoscaler{
		o: o, provider: p, cluster: c, memory: newMemory(), remover: newRemover(o, p), instances: map[string]instanceList{},
	}, nil
}

// Run loops until ctx ends: every scan interval, at once when a pod fits nowhere, and at once after a loop that did
// something.
func (a *Autoscaler) Run(ctx context.Context) error {
	defer a.remover.wait()
	for ctx.Err() == nil {
		acted, err := a.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			a.o.Log.Error(err, "Loop ended early")
		}
		if acted && err == nil {
			continue
		}
		timer := a.o.Clock.NewTimer(a.o.ScanInterval)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-a.cluster.unschedulable:
		}
		timer.Stop()
	}
	return nil
}

// RunOnce is one loop, in the original's order. It tells whether it changed something.
func (a *Autoscaler) RunOnce(ctx context.Context) (bool, error) {
	nodes, on, pending, err := a.cluster.read()
	if err != nil {
		return false, err
	}
	if !a.started {
		if err := a.cleanUp(ctx, nodes); err != nil {
			return false, err
		}
		a.started = true
	}
	for _, n := range nodes {
		if readyNode(n, a.o.StartupTaints) {
			a.provider.gpuLabel(ctx)
		}
	}
	if err := a.provider.refresh(ctx); err != nil {
		return false, err
	}
	v, err := a.observe(ctx, nodes, on, pending)
	if err != nil {
		return false, err
	}
	fresh := a.memory.newlyFailed(v)
	a.memory.observe(v)
	if err := a.removeUnregistered(ctx, v); err != nil {
		return false, err
	}
	if !healthy(v, a.o.StartupTaints) {
		return false, errors.New("too many nodes are unready: nothing is scaled")
	}
	if err := a.removeFailed(ctx, v, fresh); err != nil {
		return false, err
	}
	if fixed, err := a.fixSizes(ctx, v); fixed || err != nil {
		return fixed, err
	}
	if grown, err := a.grow(ctx, v); grown || err != nil {
		return grown, err
	}
	return a.shrink(ctx, v), nil
}

// cleanUp takes back the marks of an earlier process that died between the taint and the delete.
func (a *Autoscaler) cleanUp(ctx context.Context, nodes []*corev1.Node) error {
	for _, n := range nodes {
		g, err := a.provider.forNode(ctx, n)
		if err != nil {
			return err
		}
		if g.ID != "" && hasTaint(n, TaintToBeDeleted) {
			if err := untaint(ctx, a.o.Client, n.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// observe asks the provider for everything that a loop needs: groups, templates, target sizes, instances, and each
// node's group.
func (a *Autoscaler) observe(ctx context.Context, nodes []*corev1.Node, on map[string][]*corev1.Pod, pending []*corev1.Pod) (*View, error) {
	v := &View{Now: a.o.Clock.Now(), Pending: pending}
	groups, err := a.provider.list(ctx)
	if err != nil {
		// The original goes on with no groups at all, and forgets what it knew of them.
		a.o.Log.Error(err, "No groups in this loop")
		a.memory = newMemory()
	}
	listed := sets.New[string]()
	for _, g := range groups {
		listed.Insert(g.ID)
	}
	for _, n := range nodes {
		g, err := a.provider.forNode(ctx, n)
		if err != nil {
			a.o.Log.Error(err, "Node counts as ungrouped", "node", n.Name)
		}
		if g.ID != "" && !listed.Has(g.ID) {
			return nil, fmt.Errorf("node %s: its group %s is not listed; the original would crash here", n.Name, g.ID)
		}
		v.Nodes = append(v.Nodes, NodeView{Node: n, Group: g.ID, Pods: on[n.Name]})
	}
	for _, g := range groups {
		view, err := a.observeGroup(ctx, v, g)
		if err != nil {
			return nil, err
		}
		v.Groups = append(v.Groups, view)
	}
	return v, nil
}

func (a *Autoscaler) observeGroup(ctx context.Context, v *View, g Group) (GroupView, error) {
	view := GroupView{Group: g}
	var err error
	if view.Settings, err = a.settings(ctx, g.ID); err != nil {
		return view, err
	}
	if view.Template, err = a.template(ctx, v, view); err != nil {
		a.o.Log.Error(err, "Group has no template", "group", g.ID)
	}
	if view.Target, err = a.provider.targetSize(ctx, g.ID); err != nil {
		return view, err
	}
	known, ok := a.instances[g.ID]
	_, growing := a.memory.requests[g.ID]
	if !ok || growing || v.Now.Sub(known.read) >= instancesExpire {
		entries, err := a.provider.instances(ctx, g.ID)
		if err != nil {
			return view, err
		}
		known = instanceList{entries: entries, read: v.Now}
		a.instances[g.ID] = known
	}
	view.Instances = known.entries
	return view, nil
}

// template is a ready node of the group, else what the provider says.
func (a *Autoscaler) template(ctx context.Context, v *View, g GroupView) (*corev1.Node, error) {
	for _, n := range v.Nodes {
		if n.Group == g.ID && readyNode(n.Node, a.o.StartupTaints) && !hasTaint(n.Node, TaintToBeDeleted) && !n.Spec.Unschedulable {
			return asTemplate(n.Node, a.o.StartupTaints), nil
		}
	}
	n, err := a.provider.template(ctx, g.ID)
	if n == nil || err != nil {
		return nil, err
	}
	return asTemplate(n, a.o.StartupTaints), nil
}

// settings asks for the group's options; Unimplemented, or an answer without them, means the flags' values.
func (a *Autoscaler) settings(ctx context.Context, group string) (Settings, error) {
	s := Settings{
		Threshold: a.o.UtilizationThreshold, UnneededTime: a.o.ScaleDownUnneededTime,
		ProvisionTime: a.o.MaxNodeProvisionTime, StartupTime: a.o.MaxNodeStartupTime, StartupTaints: a.o.StartupTaints,
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	answer, err := a.o.Provider.NodeGroupGetOptions(ctx, &proto.NodeGroupAutoscalingOptionsRequest{Id: group, Defaults: wireOptions(s)})
	if status.Code(err) == codes.Unimplemented || err == nil && answer.GetNodeGroupAutoscalingOptions() == nil {
		return s, nil
	}
	if err != nil {
		return s, named("NodeGroupGetOptions "+group, err)
	}
	got := answer.GetNodeGroupAutoscalingOptions()
	s.Threshold = got.GetScaleDownUtilizationThreshold()
	s.UnneededTime = got.GetScaleDownUnneededDuration().AsDuration()
	s.ProvisionTime = got.GetMaxNodeProvisionDuration().AsDuration()
	// The protocol has no way to carry it as the original reads it: any answer makes it zero.
	s.StartupTime = 0
	return s, nil
}
