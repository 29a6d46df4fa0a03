package autoscaler

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Autoscaler is the stand-in. Make it with [New].
type Autoscaler struct {
	o         Options
	provider  *provider
	cluster   *cluster
	memory    *memory
	remover   *remover
	instances *instanceCache
	// templates are the last real nodes that showed what a group's nodes are like; they outlive the nodes.
	templates map[string]*corev1.Node
	started   bool
}

// New makes the stand-in and waits until it has read the cluster.
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

// Run loops until ctx ends: every scan interval, at once when a pod fits nowhere, and at once after a loop that did
// something. Beside it the instance lists are read every two minutes.
func (a *Autoscaler) Run(ctx context.Context) error {
	var background sync.WaitGroup
	background.Go(func() { a.instances.follow(ctx) })
	defer background.Wait()
	defer a.remover.wait()
	for ctx.Err() == nil {
		acted, err := a.RunOnce(ctx)
		if err != nil && ctx.Err() == nil {
			a.o.Log.Error(err, "Loop ended early")
		}
		if !acted || err != nil || a.o.NoFrequentLoops {
			a.pause(ctx)
		}
	}
	return nil
}

// pause waits for the next loop.
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

// errUnhealthy ends a loop in which too many nodes are unready.
var errUnhealthy = errors.New("too many nodes are unready: nothing is scaled")

// RunOnce is one loop, in the original's order. It tells whether it changed something.
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
	// Since 1.35 whoever is asked for each node's group here must answer, or nothing is scaled in this loop.
	if err := a.countUsage(ctx, v); err != nil {
		return false, err
	}
	if grown, err := a.grow(ctx, v); grown || err != nil {
		return grown, err
	}
	return a.shrink(ctx, v)
}

// beforeRefresh are the calls that come before the first Refresh of a process, and of every loop.
func (a *Autoscaler) beforeRefresh(ctx context.Context, nodes []*corev1.Node) {
	if !a.started {
		a.cleanUp(ctx, nodes)
		a.started = true
	}
	for _, n := range nodes {
		if readyNode(n, a.o.StartupTaints) {
			a.provider.gpuLabel(ctx)
		}
	}
	// What looks for nodes with devices asks whose each one is; an error is passed over.
	for _, n := range nodes {
		if readyNode(n, a.o.StartupTaints) {
			_, _ = a.provider.forNode(ctx, n)
		}
	}
}

// cleanUp takes back the marks of an earlier process that died between the taint and the delete. It is done once: a node
// whose group could not be told keeps its mark for ever.
func (a *Autoscaler) cleanUp(ctx context.Context, nodes []*corev1.Node) {
	for _, n := range nodes {
		g, err := a.provider.forNode(ctx, n)
		if err == nil && g.ID != "" && hasTaint(n, TaintToBeDeleted) {
			err = untaint(ctx, a.o.Client, n.Name)
		}
		if err != nil {
			a.o.Log.Error(err, "A mark of an earlier process may stay", "node", n.Name)
		}
	}
}

// countUsage asks for the group of every node, and of every node that is to come, to hold quotas against them.
func (a *Autoscaler) countUsage(ctx context.Context, v *View) error {
	for _, n := range v.Nodes {
		if _, err := a.provider.forNode(ctx, n.Node); err != nil {
			return err
		}
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

// settings asks for a group's options.
func (a *Autoscaler) settings(ctx context.Context, group string) (Settings, error) {
	return a.provider.options(ctx, group, Settings{
		Threshold: a.o.UtilizationThreshold, UnneededTime: a.o.ScaleDownUnneededTime, UnreadyTime: a.o.ScaleDownUnreadyTime,
		ProvisionTime: a.o.MaxNodeProvisionTime, StartupTime: a.o.MaxNodeStartupTime,
	})
}
