package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evenlyWithNodes starts with two groups of one node each that differ only in their zone. It waits until the autoscaler
// takes these nodes as the examples of their groups, which it does once a node has been Ready for a minute, and then
// creates pods. The nodes for the pods are divided between both groups (F-124).
func evenlyWithNodes(ctx context.Context, d *Demo) (string, error) {
	if err := d.inTwoZones(ctx, 1); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{"one": 1, "two": 1})); err != nil {
		return "", err
	}
	if err := pause(ctx, 75*time.Second); err != nil {
		return "", err
	}
	return "", d.divides(ctx, 6)
}

// inTwoZones creates two groups that differ only in their zone. size is the size and the minimum of each.
func (d *Demo) inTwoZones(ctx context.Context, size int) error {
	for _, g := range []group{{name: "one"}, {name: "two", zone: otherZone}} {
		g.least, g.size, g.at, g.labels = size, size, 6, both("zones")
		if err := d.make(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// divides creates pods that need a node each, and waits until each of the two groups has half of the nodes.
func (d *Demo) divides(ctx context.Context, pods int) error {
	l := load{name: "zones", pods: pods, cpu: onePerNode, on: both("zones")}
	if err := d.put(ctx, l); err != nil {
		return err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return err
	}
	return d.until(ctx, d.are(sizes{"one": pods / 2, "two": pods / 2}))
}

// gpuNodeLeaves deletes the Machine of a node that has the GPU label and no GPU, while a budget keeps its pod there. In
// the meantime pods of another group must get nodes, and these nodes must go when the pods are gone (F-125).
func gpuNodeLeaves(ctx context.Context, d *Demo) (string, error) {
	gpus := group{name: "gpus", least: 1, size: 1, at: 1, labels: map[string]string{"trial": "gpus", gpuLabel: "none-yet"}}
	// A node of another group keeps the budget in force: without any other node a drain does not wait for budgets.
	common := group{name: "common", least: 1, size: 1, at: 3, labels: both("common")}
	for _, g := range []group{gpus, common} {
		if err := d.make(ctx, g); err != nil {
			return "", err
		}
	}
	if err := d.until(ctx, d.are(sizes{gpus.name: 1, common.name: 1})); err != nil {
		return "", err
	}
	kept := load{name: "kept", pods: 1, cpu: onePerNode, on: gpus.labels}
	if err := d.put(ctx, kept); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(kept)); err != nil {
		return "", err
	}
	end, err := d.blocks(ctx, kept)
	if err != nil {
		return "", err
	}
	defer end()
	leaves := d.serversOf(gpus.name)
	if len(leaves) != 1 {
		return "", fmt.Errorf("group %s has %d servers, want 1", gpus.name, len(leaves))
	}
	node := leaves[0].Name
	if err := d.kubectl(ctx, "--namespace="+d.Group.Namespace, "delete", "machine", node, "--wait=false"); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.cordoned(node)); err != nil {
		return "", err
	}
	l := load{name: common.name, pods: 3, cpu: onePerNode, on: common.labels}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	l.pods = 0
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.has(common.name, common.least)); err != nil {
		return "", err
	}
	if _, there := d.Cloud.Server(leaves[0].ID); !there {
		return "", fmt.Errorf("node %s left although a budget keeps its pod there: nothing is shown", node)
	}
	return "1 to 3 to 1 while the node with the GPU label leaves", nil
}

// blocks makes a disruption budget that allows no eviction of a load's pods. end deletes it.
func (d *Demo) blocks(ctx context.Context, l load) (end func(), err error) {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: corev1.NamespaceDefault},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"load": l.name}},
		},
	}
	if err := d.Client.Create(ctx, budget); err != nil {
		return nil, fmt.Errorf("making a budget: %w", err)
	}
	return func() { _ = d.Client.Delete(context.WithoutCancel(ctx), budget) }, nil
}

// cordoned returns a check that a node takes no more pods.
func (d *Demo) cordoned(name string) check {
	return func(ctx context.Context) (string, error) {
		var node corev1.Node
		if err := d.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil || node.Spec.Unschedulable {
			return "", err
		}
		return fmt.Sprintf("node %s to be cordoned", name), nil
	}
}

// has returns a check that a group has exactly this size and as many Machines, whatever other groups have.
func (d *Demo) has(name string, want int) check {
	return func(ctx context.Context) (string, error) {
		size, err := d.wanted(ctx)
		if err != nil {
			return "", err
		}
		machines, _, err := d.standing(ctx)
		if err != nil || size[name] == want && machines[name] == want {
			return "", err
		}
		return fmt.Sprintf("group %s to have %d Machines: size %d, %d Machines", name, want, size[name], machines[name]), nil
	}
}
