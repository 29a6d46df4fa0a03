package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

// onePerNode is the CPU request of a pod so large that no two fit on a node of the demo's flavor.
const onePerNode = 1100

// both returns the node label that the groups of a trial have in common, so that the trial's pods can run on nodes of
// each group.
func both(trial string) map[string]string { return map[string]string{"trial": trial} }

// instead creates one group whose servers cannot be created or do not join, and another group without a fault. It then
// creates pods that either group could run, and waits until the pods run.
func (d *Demo) instead(ctx context.Context, troubled, other group, pods int, within time.Duration) (string, error) {
	for _, g := range []group{troubled, other} {
		if err := d.make(ctx, g); err != nil {
			return "", err
		}
	}
	if err := d.until(ctx, d.are(sizes{troubled.name: troubled.size, other.name: other.size})); err != nil {
		return "", err
	}
	l := load{name: "either", pods: pods, cpu: onePerNode, on: troubled.labels}
	watch, began := d.watchPeak(ctx), time.Now()
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	took := time.Since(began)
	note := fmt.Sprintf("all pods ran after %.1f s", took.Seconds())
	if took > within {
		return note, fmt.Errorf("they ran after %.1f s; the limit is %s", took.Seconds(), within)
	}
	if err := d.until(ctx, d.are(sizes{troubled.name: 0, other.name: pods})); err != nil {
		return note, err
	}
	high := watch.highest()
	if high.each[troubled.name] == 0 {
		return note, fmt.Errorf("the autoscaler never turned to group %s: this shows nothing", troubled.name)
	}
	return fmt.Sprintf("%s; the sizes added up to %d at most", note, high.sum), nil
}

// fullServerGroup puts the servers of one group into a server group, while the quota allows no members in server
// groups.
func fullServerGroup(ctx context.Context, d *Demo) (string, error) {
	d.Cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{ServerGroupMembers: openstack.None})
	defer d.Cloud.SetQuota(openstack.MetaKubeProject, openstack.Quota{})
	labels := both("quota")
	return d.instead(ctx, group{name: "full", at: 5, labels: labels}, group{name: "free", at: 5, alone: true, labels: labels}, 3, 40*time.Second)
}

// noRoom leaves no room for a server on the hosts of one zone.
func noRoom(ctx context.Context, d *Demo) (string, error) {
	for _, h := range d.Cloud.Hosts() {
		if h.Zone == openstack.MetaKubeZone {
			full := h
			full.VCPUs = 1
			d.Cloud.SetHost(full)
			defer d.Cloud.SetHost(h)
		}
	}
	labels := both("room")
	return d.instead(ctx, group{name: "roomless", at: 5, labels: labels}, group{name: "free", at: 5, zone: otherZone, labels: labels}, 3, 40*time.Second)
}

// otherZone is the second zone of the simulated cloud.
const otherZone = "dbl2"

// neverJoins boots the servers of one group without a kubelet.
func neverJoins(ctx context.Context, d *Demo) (string, error) {
	labels := both("silence")
	return d.instead(ctx, group{name: silent, at: 5, labels: labels}, group{name: "free", at: 5, flavor: newFlavor, labels: labels}, 1, 2*time.Minute)
}

// grows creates a group of one node, and pods that need a node each. It calls the function trouble once the autoscaler
// has requested the nodes. The group's size must never be larger than most, and at the end there must be exactly as
// many nodes as pods.
func (d *Demo) grows(ctx context.Context, pods, most int, trouble func() error) (string, error) {
	g := group{name: "growing", least: 1, size: 1, at: 10, labels: both("growth")}
	if err := d.make(ctx, g); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{g.name: 1})); err != nil {
		return "", err
	}
	watch := d.watchPeak(ctx)
	l := load{name: "growth", pods: pods, cpu: onePerNode, on: g.labels}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.ordered(g.name, pods)); err != nil {
		return "", err
	}
	if err := trouble(); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{g.name: pods})); err != nil {
		return "", err
	}
	high := watch.highest().sum
	note := fmt.Sprintf("%d pods on %d nodes; the size was %d at most", pods, pods, high)
	if high > most {
		return note, fmt.Errorf("the size rose to %d, want at most %d", high, most)
	}
	return note, nil
}

// ordered returns a check that a group's target size is at least size.
func (d *Demo) ordered(name string, size int) check {
	return func(ctx context.Context) (string, error) {
		now, err := d.wanted(ctx)
		if err != nil || now[name] >= size {
			return "", err
		}
		return fmt.Sprintf("group %s to be %d: now %d", name, size, now[name]), nil
	}
}

// away is the time from the kill of both drover replicas to their restart.
const away = 3 * time.Second

func droverKilled(ctx context.Context, d *Demo) (string, error) {
	return d.grows(ctx, 4, 4, func() error { return d.killBoth(ctx) })
}

// killBoth kills both replicas of drover, and starts them again after a pause.
func (d *Demo) killBoth(ctx context.Context) error {
	d.KillDrover(0)
	d.KillDrover(1)
	if err := pause(ctx, away); err != nil {
		return err
	}
	for n := range 2 {
		if err := d.ReviveDrover(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func failedOver(ctx context.Context, d *Demo) (string, error) {
	return d.failsOver(ctx, func(trouble func() error) (string, error) { return d.grows(ctx, 4, 4, trouble) })
}

// failsOver runs a change during which the leader is killed and the other replica takes over. Afterwards the first replica leads again.
func (d *Demo) failsOver(ctx context.Context, run func(trouble func() error) (string, error)) (string, error) {
	note, err := run(func() error {
		d.KillDrover(0)
		return d.FailOver(1)
	})
	if err != nil {
		return note, err
	}
	if err := d.ReviveDrover(ctx, 0); err != nil {
		return note, err
	}
	return note, d.FailOver(0)
}

// autoscalerKilled restarts the autoscaler. The new process does not know the earlier scale-ups and may request nodes
// again; it removes the excess later.
func autoscalerKilled(ctx context.Context, d *Demo) (string, error) {
	return d.grows(ctx, 4, 7, d.RestartAutoscaler)
}

func autoscalerKilledGuarded(ctx context.Context, d *Demo) (string, error) {
	return d.grows(ctx, 4, 4, d.RestartAutoscaler)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// changedMeanwhile raises the size and changes the template as a user, while nodes start. At the end there are as many
// nodes as the pods need, all from the new template.
func changedMeanwhile(ctx context.Context, d *Demo) (string, error) {
	const name = "growing"
	note, err := d.grows(ctx, 3, 7, func() error {
		if err := d.kubectl(ctx, "--namespace="+d.Group.Namespace, "scale", "machinedeployment", name, "--replicas=5"); err != nil {
			return err
		}
		patch := `{"spec":{"template":{"spec":{"metadata":{"labels":{"` + newLabel + `":"` + newValue + `"}}}}}}`
		return d.kubectl(ctx, "--namespace="+d.Group.Namespace, "patch", "machinedeployment", name, "--type=merge", "--patch="+patch)
	})
	if err != nil {
		return note, err
	}
	return note, d.until(ctx, func(ctx context.Context) (string, error) {
		var nodes corev1.NodeList
		if err := d.Client.List(ctx, &nodes); err != nil {
			return "", err
		}
		old := 0
		for i := range nodes.Items {
			if nodes.Items[i].Labels[newLabel] != newValue {
				old++
			}
		}
		if old > 0 || len(nodes.Items) != 3 {
			return fmt.Sprintf("three new nodes: now %d, of them %d old", len(nodes.Items), old), nil
		}
		return "", nil
	})
}

// fromZero starts with an empty group. Only its template shows that its nodes suit the pods.
func fromZero(ctx context.Context, d *Demo) (string, error) {
	taint := corev1.Taint{Key: "trial", Value: "zero", Effect: corev1.TaintEffectNoSchedule}
	special := group{name: "special", at: 3, labels: both("zero"), taints: []corev1.Taint{taint}}
	for _, g := range []group{special, {name: "common", at: 3, labels: both("common")}} {
		if err := d.make(ctx, g); err != nil {
			return "", err
		}
	}
	l := load{name: "special", pods: 2, cpu: onePerNode, on: special.labels, tolerates: []corev1.Toleration{
		{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect},
	}}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{special.name: 2, "common": 0})); err != nil {
		return "", err
	}
	l.pods = 0
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	return "0 to 2 to 0", d.until(ctx, d.are(sizes{special.name: 0, "common": 0}))
}

// evenly starts with two empty groups that differ only in their zone. The nodes for the pods are divided between both
// groups.
func evenly(ctx context.Context, d *Demo) (string, error) {
	if err := d.inTwoZones(ctx, 0); err != nil {
		return "", err
	}
	return "", d.divides(ctx, 4)
}

// exactNode deletes the pod of one of three busy nodes. The autoscaler must remove exactly that node.
func exactNode(ctx context.Context, d *Demo) (string, error) {
	g := group{name: "three", at: 5, labels: both("exact")}
	if err := d.make(ctx, g); err != nil {
		return "", err
	}
	var loads []load
	for _, name := range []string{"first", "second", "third"} {
		l := load{name: name, pods: 1, cpu: onePerNode, on: g.labels}
		if err := d.put(ctx, l); err != nil {
			return "", err
		}
		loads = append(loads, l)
	}
	for _, l := range loads {
		if err := d.until(ctx, d.runs(l)); err != nil {
			return "", err
		}
	}
	if err := d.until(ctx, d.are(sizes{g.name: 3})); err != nil {
		return "", err
	}
	before, err := d.nodesOf(ctx)
	if err != nil {
		return "", err
	}
	loads[1].pods = 0
	if err := d.put(ctx, loads[1]); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{g.name: 2})); err != nil {
		return "", err
	}
	after, err := d.nodesOf(ctx)
	if err != nil {
		return "", err
	}
	for load, node := range before {
		if now := after[load]; load != loads[1].name && now != node {
			return "", fmt.Errorf("the pod of %s was on node %s and is on %q: another node went than the empty one", load, node, now)
		}
	}
	return "", nil
}

// nodesOf returns the node of each load's pod.
func (d *Demo) nodesOf(ctx context.Context) (map[string]string, error) {
	var pods corev1.PodList
	if err := d.Client.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("looking at pods: %w", err)
	}
	out := map[string]string{}
	for i := range pods.Items {
		if name := pods.Items[i].Labels["load"]; name != "" && pods.Items[i].DeletionTimestamp == nil {
			out[name] = pods.Items[i].Spec.NodeName
		}
	}
	return out, nil
}

// cheaper sets the price of the larger flavor to a tenth of the price of the smaller one.
func cheaper(ctx context.Context, d *Demo) (string, error) {
	prices := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: sandbox.Namespace, Name: pricesName},
		Data:       map[string]string{"prices.yaml": "flavors: {m1.small: 1.0, m1.medium: 0.1}\ncpu: 0.1\nmemoryGiB: 0.01\n"},
	}
	if err := d.Client.Create(ctx, prices); err != nil {
		return "", fmt.Errorf("making prices: %w", err)
	}
	labels := both("price")
	for _, g := range []group{{name: "dear", at: 3, labels: labels}, {name: "cheap", at: 3, flavor: newFlavor, labels: labels}} {
		if err := d.make(ctx, g); err != nil {
			return "", err
		}
	}
	// The trial waits until drover has read the new prices, which drover does every few seconds.
	if err := pause(ctx, 6*time.Second); err != nil {
		return "", err
	}
	l := load{name: "priced", pods: 1, cpu: onePerNode, on: labels}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	return "", d.until(ctx, d.are(sizes{"cheap": 1, "dear": 0}))
}
