package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/test/openstack"
)

// busy makes an empty group with room for twice as many nodes, and pods that need a node each, and waits until the pods run.
func (d *Demo) busy(ctx context.Context, name string, nodes int) (group, load, error) {
	g := group{name: name, at: 2 * nodes, labels: both(name)}
	l := load{name: name, pods: nodes, cpu: onePerNode, on: g.labels}
	if err := d.make(ctx, g); err != nil {
		return g, l, err
	}
	if err := d.put(ctx, l); err != nil {
		return g, l, err
	}
	return g, l, d.until(ctx, d.runs(l))
}

// shrinks makes a group of nodes with one pod each, removes the pods, and calls the function trouble once the first server is gone. All
// nodes must go without a person, and the group must grow again afterwards.
func (d *Demo) shrinks(ctx context.Context, nodes int, trouble func() error) (string, error) {
	g, l, err := d.busy(ctx, "shrinking", nodes)
	if err != nil {
		return "", err
	}
	l.pods = 0
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	fewer := func(context.Context) (string, error) {
		if now := d.Cloud.ServerCount(); now == nodes {
			return fmt.Sprintf("a server to go: still %d", now), nil
		}
		return "", nil
	}
	if err := d.until(ctx, fewer); err != nil {
		return "", err
	}
	left, began := d.Cloud.ServerCount(), time.Now()
	if err := trouble(); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{g.name: 0})); err != nil {
		return "", err
	}
	note := fmt.Sprintf("%d of %d servers were left at the trouble, none %.0f s later", left, nodes, time.Since(began).Seconds())
	l.pods = 2
	if err := d.put(ctx, l); err != nil {
		return note, err
	}
	return note, d.until(ctx, d.runs(l))
}

// droverKilledInScaleDown kills both replicas after the first of eight servers is gone (F-59).
func droverKilledInScaleDown(ctx context.Context, d *Demo) (string, error) {
	return d.shrinks(ctx, 8, func() error { return d.killBoth(ctx) })
}

// failedOverInScaleDown kills the leader after the first of eight servers is gone, and lets the other replica take over (F-59).
func failedOverInScaleDown(ctx context.Context, d *Demo) (string, error) {
	return d.failsOver(ctx, func(trouble func() error) (string, error) { return d.shrinks(ctx, 8, trouble) })
}

// serverVanishes deletes the server of one of four busy nodes in the cloud, as a person may. Only that node may go, and its pod runs
// again.
func serverVanishes(ctx context.Context, d *Demo) (string, error) {
	g, l, err := d.busy(ctx, "vanishing", 4)
	if err != nil {
		return "", err
	}
	g.size = l.pods
	if err := d.until(ctx, d.are(sizes{g.name: g.size})); err != nil {
		return "", err
	}
	watch, began := d.watchPeak(ctx), time.Now()
	lost := idsOf(d.serversOf(g.name))[:1]
	d.Cloud.DeleteServer(lost[0])
	d.CutOff(lost...)
	if err := d.replaced(ctx, g, lost); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	return fmt.Sprintf("replaced, with its pod, after %.0f s; the size was %d at most", time.Since(began).Seconds(), watch.highest().sum), nil
}

// failsAtMinimum leaves no room for the servers of a group that is at its minimum. The autoscaler must go on: pods that could run on
// either group run on the other one. With room again, the group reaches its minimum.
func failsAtMinimum(ctx context.Context, d *Demo) (string, error) {
	d.Cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{ServerGroupMembers: openstack.None})
	defer d.Cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{})
	labels := both("least")
	full, free := group{name: "full", least: 2, size: 2, at: 5, labels: labels}, group{name: "free", at: 5, alone: true, labels: labels}
	for _, g := range []group{full, free} {
		if err := d.make(ctx, g); err != nil {
			return "", err
		}
	}
	l := load{name: "least", pods: 3, cpu: onePerNode, on: labels}
	began := time.Now()
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	took := time.Since(began)
	d.Cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{})
	return fmt.Sprintf("all pods ran on the other group after %.0f s", took.Seconds()), d.until(ctx, d.are(sizes{full.name: full.least, free.name: l.pods}))
}
