package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
)

// serversOf returns the servers of a group, sorted by name.
func (d *Demo) serversOf(group string) []openstack.Server {
	servers := slices.DeleteFunc(d.Cloud.Servers(), func(s openstack.Server) bool { return !strings.HasPrefix(s.Name, group+"-") })
	slices.SortFunc(servers, func(a, b openstack.Server) int { return strings.Compare(a.Name, b.Name) })
	return servers
}

// idsOf returns the IDs of servers.
func idsOf(servers []openstack.Server) []string {
	var ids []string
	for _, s := range servers {
		ids = append(ids, s.ID)
	}
	return ids
}

// settled creates a group and waits until it has its size.
func (d *Demo) settled(ctx context.Context, g group) error {
	if err := d.make(ctx, g); err != nil {
		return err
	}
	return d.until(ctx, d.are(sizes{g.name: g.size}))
}

// replaced waits until the group has its size without the lost servers, and returns an error when another server was
// deleted, too.
func (d *Demo) replaced(ctx context.Context, g group, lost []string) error {
	kept := slices.DeleteFunc(idsOf(d.serversOf(g.name)), func(id string) bool { return slices.Contains(lost, id) })
	err := d.until(ctx, func(ctx context.Context) (string, error) {
		for _, s := range d.serversOf(g.name) {
			if slices.Contains(lost, s.ID) {
				return fmt.Sprintf("server %s to be replaced: it is %s", s.Name, s.Status), nil
			}
		}
		return d.are(sizes{g.name: g.size})(ctx)
	})
	if err != nil {
		return err
	}
	now := idsOf(d.serversOf(g.name))
	for _, id := range kept {
		if !slices.Contains(now, id) {
			return fmt.Errorf("server %s was well and is gone", id)
		}
	}
	return nil
}

// nodeDies permanently cuts off one of three busy nodes. The autoscaler may request a node for the pod of that node,
// because from release 1.36 on it does not count upcoming nodes that it has not requested itself. It removes the excess
// later.
func nodeDies(ctx context.Context, d *Demo) (string, error) {
	g := group{name: "dying", least: 3, size: 3, at: 5, labels: both("dying")}
	if err := d.settled(ctx, g); err != nil {
		return "", err
	}
	l := load{name: "dying", pods: 3, cpu: onePerNode, on: g.labels}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	watch, began := d.watchPeak(ctx), time.Now()
	lost := idsOf(d.serversOf(g.name))[:1]
	d.CutOff(lost...)
	if err := d.replaced(ctx, g, lost); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	return fmt.Sprintf("replaced, with its pod, %.0f s after it was cut off, of which the control plane waits 50 s; the size was %d at most",
		time.Since(began).Seconds(), watch.highest().sum), nil
}

// hostDies makes one of three hosts fail, with two of six nodes on it.
func hostDies(ctx context.Context, d *Demo) (string, error) {
	const hosts = 3
	used := 0
	for _, h := range d.Cloud.Hosts() {
		if h.Zone != openstack.MetaKubeZone {
			continue
		}
		if used++; used > hosts {
			closed := h
			closed.Disabled = true
			d.Cloud.SetHost(closed)
		}
		defer d.Cloud.SetHost(h)
	}
	g := group{name: "hosted", least: 6, size: 6, at: 6, alone: true, labels: both("host")}
	if err := d.settled(ctx, g); err != nil {
		return "", err
	}
	on := map[string][]string{}
	for _, s := range d.serversOf(g.name) {
		on[s.Host] = append(on[s.Host], s.ID)
	}
	for _, h := range d.Cloud.Hosts() {
		if lost := on[h.Name]; len(lost) == 2 {
			h.Down = true
			d.Cloud.SetHost(h)
			began := time.Now()
			d.CutOff(lost...)
			err := d.replaced(ctx, g, lost)
			return fmt.Sprintf("two of six nodes replaced %.0f s after their host died", time.Since(began).Seconds()), err
		}
	}
	return "", fmt.Errorf("no host has two of the six servers (%v): this shows nothing", on)
}

// zoneCutOff cuts off all nodes of one of two zones for longer than the health timeout, and then reconnects them. No
// server may be replaced.
func zoneCutOff(ctx context.Context, d *Demo) (string, error) {
	labels := both("zone")
	well, cut := group{name: "well", least: 3, size: 3, at: 3, labels: labels}, group{name: "cut", least: 3, size: 3, at: 3, zone: otherZone, labels: labels}
	for _, g := range []group{well, cut} {
		if err := d.make(ctx, g); err != nil {
			return "", err
		}
	}
	whole := d.are(sizes{well.name: well.size, cut.name: cut.size})
	if err := d.until(ctx, whole); err != nil {
		return "", err
	}
	before := append(idsOf(d.serversOf(well.name)), idsOf(d.serversOf(cut.name))...)
	d.CutOff(idsOf(d.serversOf(cut.name))...)
	if err := d.until(ctx, d.notReady(cut.name, cut.size)); err != nil {
		return "", err
	}
	if err := pause(ctx, 30*time.Second); err != nil {
		return "", err
	}
	if now := append(idsOf(d.serversOf(well.name)), idsOf(d.serversOf(cut.name))...); !slices.Equal(now, before) {
		return "", fmt.Errorf("servers were replaced while the zone was cut off: %v, before %v", now, before)
	}
	d.Reconnect(idsOf(d.serversOf(cut.name))...)
	if err := d.until(ctx, whole); err != nil {
		return "", err
	}
	if now := append(idsOf(d.serversOf(well.name)), idsOf(d.serversOf(cut.name))...); !slices.Equal(now, before) {
		return "", fmt.Errorf("servers were replaced after the zone had come back: %v, before %v", now, before)
	}
	return "30 s not Ready, with a health timeout of 10 s; all six servers are the same", nil
}

// notReady returns a check that the number of Nodes of a group that are not Ready is want.
func (d *Demo) notReady(group string, want int) check {
	return func(ctx context.Context) (string, error) {
		var nodes corev1.NodeList
		if err := d.Client.List(ctx, &nodes); err != nil {
			return "", fmt.Errorf("looking at nodes: %w", err)
		}
		n := 0
		for i := range nodes.Items {
			ready := slices.ContainsFunc(nodes.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			if strings.HasPrefix(nodes.Items[i].Name, group+"-") && !ready {
				n++
			}
		}
		if n != want {
			return fmt.Sprintf("%d nodes of %s not to be Ready: now %d", want, group, n), nil
		}
		return "", nil
	}
}

// machineLost deletes a Machine and removes its finalizers, as a user may. Its set creates another one.
func machineLost(ctx context.Context, d *Demo) (string, error) {
	g := group{name: "lost", least: 2, size: 2, at: 3, labels: both("lost")}
	if err := d.settled(ctx, g); err != nil {
		return "", err
	}
	var list v1alpha1.MachineList
	if err := d.Client.List(ctx, &list, client.MatchingLabels{"group": g.name}); err != nil {
		return "", fmt.Errorf("looking at machines: %w", err)
	}
	m := list.Items[0]
	lost := slices.DeleteFunc(d.serversOf(g.name), func(s openstack.Server) bool { return s.Name != m.Name })
	began := time.Now()
	for _, patch := range []string{
		`{"metadata":{"annotations":{"` + v1alpha1.AnnotationPaused + `":""}}}`,
		`{"metadata":{"finalizers":null}}`,
	} {
		if err := d.Client.Patch(ctx, &m, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			return "", fmt.Errorf("patching machine %s: %w", m.Name, err)
		}
	}
	if err := d.Client.Delete(ctx, &m); err != nil {
		return "", fmt.Errorf("deleting machine %s: %w", m.Name, err)
	}
	if err := d.replaced(ctx, g, idsOf(lost)); err != nil {
		return "", err
	}
	return fmt.Sprintf("its server was gone after %.0f s, with an age of 20 s and passes every 10 s", time.Since(began).Seconds()), nil
}
