package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Autoscaler is a simulated cluster-autoscaler. Create it with [New].
type Autoscaler struct {
	o         Options
	provider  *provider
	cluster   *cluster
	memory    *memory
	remover   *remover
	instances *instanceCache
	// templates holds for each group the last real node that served as its template. An entry outlives its node.
	templates map[string]*corev1.Node
	// gpuLabel is the provider's label of nodes with a GPU; empty until there is a ready node.
	gpuLabel string
	started  bool
}

// New creates the simulated autoscaler and waits until its informer caches are synced.
func New(ctx context.Context, o Options) (*Autoscaler, error) {
	o = o.withDefaults()
	c, err := newCluster(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	p := newProvider(o.Provider, o.Timeout)
	cache := newInstanceCache(o.Clock, o.Log, p)
	return &Autoscaler{
		o: o, provider: p, cluster: c, memory: newMemory(), instances: cache,
		remover: newRemover(o, p, cache.invalidate), templates: map[string]*corev1.Node{},
	}, nil
}

// Run runs loops until ctx ends: one every scan interval, one when a pod becomes unschedulable, and one after a loop that changed
// something. In the background it reads the instance lists every two minutes.
func (a *Autoscaler) Run(ctx context.Context) error {
	var background sync.WaitGroup
	background.Go(func() { a.instances.follow(ctx) })
	defer background.Wait()
	defer a.remover.wait()
	for ctx.Err() == nil {
		acted, err := a.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			a.o.Log.Error(err, "Loop ended with an error")
		}
		if !acted || err != nil || a.o.NoFrequentLoops {
			a.pause(ctx)
		}
	}
	return nil
}

// pause blocks until the next loop is due.
func (a *Autoscaler) pause(ctx context.Context) {
	wake := a.cluster.unschedulable
	if a.o.NoFrequentLoops {
		wake = nil
	}
	timer := a.o.Clock.NewTimer(a.o.ScanInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-wake:
	}
}

// errUnhealthy ends a loop while too many nodes are unready.
var errUnhealthy = errors.New("too many nodes are unready: no group is scaled")

// RunOnce runs one loop, in the order of cluster-autoscaler. It reports whether the loop changed something.
func (a *Autoscaler) RunOnce(ctx context.Context) (bool, error) {
	nodes, on, pending, err := a.cluster.read()
	if err != nil {
		return false, err
	}
	a.beforeRefresh(ctx, nodes)
	if err := a.provider.refresh(ctx); err != nil {
		return false, err
	}
	v, err := a.observe(ctx, nodes, on, pending)
	if err != nil {
		return false, err
	}
	a.memory.observe(v)
	a.revertLate(ctx, v)
	a.backOffFailed(v)
	if err := a.removeUnregistered(ctx, v); err != nil {
		return false, err
	}
	if !healthy(v) {
		return false, errUnhealthy
	}
	a.removeFailed(ctx, v)
	if fixed, err := a.fixSizes(ctx, v); fixed || err != nil {
		return fixed, err
	}
	// From 1.35 on, cluster-autoscaler requests the group of each node at this point. If a request fails, the loop ends without
	// scaling.
	if err := a.countUsage(ctx, v); err != nil {
		return false, err
	}
	if grown, err := a.grow(ctx, v); grown || err != nil {
		return grown, err
	}
	return a.shrink(ctx, v)
}

// beforeRefresh makes the calls that precede the first Refresh of a process, and those that precede the Refresh of each loop.
func (a *Autoscaler) beforeRefresh(ctx context.Context, nodes []*corev1.Node) {
	if !a.started {
		a.cleanUp(ctx, nodes)
		a.started = true
	}
	for _, n := range nodes {
		if readyNode(n, a.o.StartupTaints, "") {
			a.gpuLabel = a.provider.gpuLabel(ctx)
		}
	}
	// cluster-autoscaler's processor for nodes with devices requests the group of each ready node, and ignores errors.
	for _, n := range nodes {
		if readyNode(n, a.o.StartupTaints, a.gpuLabel) {
			_, _ = a.provider.forNode(ctx, n)
		}
	}
}

// cleanUp removes the deletion taints of an earlier process that ended between tainting and deleting. It runs once per process: a
// node whose group cannot be read keeps its taint until the next process.
func (a *Autoscaler) cleanUp(ctx context.Context, nodes []*corev1.Node) {
	for _, n := range nodes {
		g, err := a.provider.forNode(ctx, n)
		if err == nil && g.ID != "" && hasTaint(n, TaintToBeDeleted) {
			err = untaint(ctx, a.o.Client, n.Name)
		}
		if err != nil {
			a.o.Log.Error(err, "Failed to remove the deletion taint of an earlier process", "node", n.Name)
		}
	}
}

// errNoGPU is the error of a loop in which a node has the GPU label, but neither a GPU nor a group whose template would show its GPUs.
var errNoGPU = errors.New("a node has the GPU label, and neither a GPU nor a node group: no group is scaled")

// countUsage requests the group of every node, and of every upcoming node, as cluster-autoscaler does to check resource quotas. For a node
// without the GPU that its label promises it also requests the group's template, once for each group.
func (a *Autoscaler) countUsage(ctx context.Context, v *View) error {
	counted := map[string]bool{}
	for _, n := range v.Nodes {
		g, err := a.provider.forNode(ctx, n.Node)
		if err == nil && !counted[g.ID] && lacksGPU(n.Node, n.GPULabel) {
			err = a.expectGPU(ctx, g.ID)
		}
		if err != nil {
			return err
		}
		counted[g.ID] = g.ID != ""
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		for n := range a.memory.upcoming(v, g) {
			if g.Template == nil {
				continue
			}
			if _, err := a.provider.forNode(ctx, upcomingNode(g, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// expectGPU requests the template of a group, which tells how many GPUs its nodes will have.
func (a *Autoscaler) expectGPU(ctx context.Context, group string) error {
	if group == "" {
		return errNoGPU
	}
	template, err := a.provider.template(ctx, group)
	if err == nil && template == nil {
		err = fmt.Errorf("the template of %s is not implemented, and a node of it lacks its GPU: no group is scaled", group)
	}
	return err
}

// settings returns the options of a group.
func (a *Autoscaler) settings(ctx context.Context, group string) (Settings, error) {
	return a.provider.options(ctx, group, Settings{
		Threshold: a.o.UtilizationThreshold, UnneededTime: a.o.ScaleDownUnneededTime, UnreadyTime: a.o.ScaleDownUnreadyTime,
		ProvisionTime: a.o.MaxNodeProvisionTime, StartupTime: a.o.MaxNodeStartupTime,
	})
}
