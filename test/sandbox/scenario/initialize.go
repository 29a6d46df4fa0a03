package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/sandbox"
)

// initializedLate creates pods that need one node each, while the cloud-controller-manager initializes new Nodes late.
// Nodes that are Ready and do not take pods yet must not make the autoscaler request more nodes.
func initializedLate(ctx context.Context, d *Demo) (string, error) {
	return orderedOnce(ctx, d, group{name: "late", at: 10, labels: both("late")})
}

// initializedLateWithOptions runs the same trial as initializedLate, with a group that has its own autoscaling options. For
// such a group the autoscaler does not know how long a Node may take to start.
func initializedLateWithOptions(ctx context.Context, d *Demo) (string, error) {
	option := map[string]string{v1alpha1.AnnotationOptions + "scaledownunneededtime": "5s"}
	return orderedOnce(ctx, d, group{name: "optional", at: 10, labels: both("optional"), annotations: option})
}

// orderedOnce creates pods that need one node each in an empty group, and fails when more nodes are requested than pods
// exist.
func orderedOnce(ctx context.Context, d *Demo, g group) (string, error) {
	const pods = 5
	if err := d.make(ctx, g); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{g.name: 0})); err != nil {
		return "", err
	}
	watch, began := d.watchPeak(ctx), time.Now()
	l := load{name: g.name, pods: pods, cpu: onePerNode, on: g.labels}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.ordered(g.name, pods)); err != nil {
		return "", err
	}
	// The restarted cloud-controller-manager reads the Nodes immediately, and then once per interval. The Nodes are created a few seconds
	// after its start, and must therefore wait for the end of the interval.
	d.KillCloudController()
	d.ReviveCloudController()
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	took := time.Since(began)
	if err := d.until(ctx, d.are(sizes{g.name: pods})); err != nil {
		return "", err
	}
	high := watch.highest()
	note := fmt.Sprintf("all pods ran after %.1f s; the size was %d at most, with %d servers", took.Seconds(), high.sum, high.servers)
	if high.sum != pods || high.servers != pods {
		return note, fmt.Errorf("the size rose to %d, with %d servers; want exactly %d", high.sum, high.servers, pods)
	}
	return note, nil
}

// standstill is how long a rollout must make no progress while the cloud-controller-manager is stopped.
const standstill = 12 * time.Second

// initializerDies changes the template of a group of three nodes, with a surge of 1 and none unavailable, and kills the
// cloud-controller-manager once the first node has been replaced.
func initializerDies(ctx context.Context, d *Demo) (string, error) {
	const size = 3
	g := group{name: "roll", least: size, size: size, at: 6, labels: both("roll")}
	if err := d.make(ctx, g); err != nil {
		return "", err
	}
	l := load{name: "roll", pods: size, cpu: onePerNode, on: g.labels}
	if err := d.put(ctx, l); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.runs(l)); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.are(sizes{g.name: size})); err != nil {
		return "", err
	}
	usable := d.WatchUsableNodes(ctx)
	defer usable.Stop()
	patch := `{"spec":{"template":{"spec":{"metadata":{"labels":{"` + newLabel + `":"` + newValue + `"}}}}}}`
	if err := d.kubectl(ctx, "--namespace="+d.Group.Namespace, "patch", "machinedeployment", g.name, "--type=merge", "--patch="+patch); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.renewed(1)); err != nil {
		return "", err
	}
	if err := d.dieAndRevive(ctx); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.renewed(size)); err != nil {
		return "", err
	}
	for _, c := range []check{d.are(sizes{g.name: size}), d.runs(l)} {
		if err := d.until(ctx, c); err != nil {
			return "", err
		}
	}
	fewest, _ := usable.Fewest()
	note := fmt.Sprintf("never fewer than %d nodes that take pods", fewest)
	if fewest < size {
		return note, fmt.Errorf("only %d nodes took pods at one time of the rollout; maxUnavailable is 0 of %d", fewest, size)
	}
	return note, nil
}

// dieAndRevive kills the cloud-controller-manager, and waits until a Machine reports that its Node waits for
// initialization. It then checks that no Machine is created or deleted, and starts the cloud-controller-manager
// again.
func (d *Demo) dieAndRevive(ctx context.Context) error {
	d.KillCloudController()
	defer d.ReviveCloudController()
	if err := d.until(ctx, d.stands); err != nil {
		return err
	}
	before, err := d.living(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, standstill); err != nil {
		return err
	}
	after, err := d.living(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		return fmt.Errorf("the Machines changed while the cloud-controller-manager was dead: %v, then %v", before, after)
	}
	return nil
}

// stands checks that the rollout makes no progress: one Machine reports that its Node waits for the
// cloud-controller-manager, all others are Ready, and none is being deleted.
func (d *Demo) stands(ctx context.Context) (string, error) {
	var machines v1alpha1.MachineList
	if err := d.Client.List(ctx, &machines); err != nil {
		return "", fmt.Errorf("looking at machines: %w", err)
	}
	ready, waiting := 0, 0
	for i := range machines.Items {
		for _, c := range machines.Items[i].Status.Conditions {
			switch {
			case c.Type != v1alpha1.ConditionReady || machines.Items[i].DeletionTimestamp != nil:
			case c.Status == corev1.ConditionTrue:
				ready++
			case c.Reason == "NodeStarting" && strings.Contains(c.Message, kubelet.UninitializedTaint):
				waiting++
			}
		}
	}
	if n := len(machines.Items); waiting != 1 || ready != n-1 {
		return fmt.Sprintf("one Machine to wait for the cloud-controller-manager and the others to be Ready: now %d and %d of %d", waiting, ready, n), nil
	}
	return "", nil
}

// living returns the UIDs of all Machines. The UID of a Machine that is being deleted has a suffix.
func (d *Demo) living(ctx context.Context) ([]types.UID, error) {
	var machines v1alpha1.MachineList
	if err := d.Client.List(ctx, &machines); err != nil {
		return nil, fmt.Errorf("looking at machines: %w", err)
	}
	var out []types.UID
	for i := range machines.Items {
		uid := machines.Items[i].UID
		if machines.Items[i].DeletionTimestamp != nil {
			uid += " (being deleted)"
		}
		out = append(out, uid)
	}
	slices.Sort(out)
	return out, nil
}

// renewed returns a check that at least as many nodes of the changed template as wanted take pods.
func (d *Demo) renewed(want int) check {
	return func(ctx context.Context) (string, error) {
		var nodes corev1.NodeList
		if err := d.Client.List(ctx, &nodes); err != nil {
			return "", fmt.Errorf("looking at nodes: %w", err)
		}
		fresh := 0
		for i := range nodes.Items {
			if n := &nodes.Items[i]; n.Labels[newLabel] == newValue && sandbox.UsableNode(n) {
				fresh++
			}
		}
		if fresh < want {
			return fmt.Sprintf("%d nodes of the changed template that take pods: now %d", want, fresh), nil
		}
		return "", nil
	}
}
