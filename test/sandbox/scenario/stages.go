package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

// Stage is one feature that the demo shows.
type Stage struct {
	Name string
	// Limit is how long the stage may take.
	Limit time.Duration
	// Run runs the stage. It returns nil only when what the stage's name says is true. The note is what the stage
	// measured.
	Run func(ctx context.Context, d *Demo) (note string, err error)
}

// JoinLimit is how long the first pending pod may wait for its node, with servers that boot in 3 s.
const JoinLimit = 15 * time.Second

// The sizes in the scenario. The bounds are in the manifest.
const (
	smallest, largest = 1, 5
	byHand            = 3
	rolled            = 2
	singleName        = "single"
)

// Stages returns the stages of the scenario, in order.
func Stages() []Stage {
	return []Stage{
		{"apply a MachineDeployment: its nodes join", time.Minute, applyGroup},
		{"pods that do not fit: nodes arrive", time.Minute, scaleUp},
		{"pods gone: nodes leave, down to the minimum", 90 * time.Second, scaleDown},
		{"kubectl scale, up and down again", time.Minute, scaleByHand},
		{"a changed template: every node is replaced", 2 * time.Minute, roll},
		{"kubectl create and delete of a single Machine", time.Minute, single},
		{"nothing is left but what living nodes need", time.Minute, clean},
	}
}

func applyGroup(ctx context.Context, d *Demo) (string, error) {
	if err := d.kubectlFile(ctx, "apply", "nodes", d.Group); err != nil {
		return "", err
	}
	return "", d.until(ctx, d.size(int(*d.Group.Spec.Replicas)))
}

func scaleUp(ctx context.Context, d *Demo) (string, error) {
	before, err := d.members(ctx)
	if err != nil {
		return "", err
	}
	if err := d.workload(ctx, largest); err != nil {
		return "", err
	}
	first := newFirstJoin(before.nodes)
	err = d.until(ctx, func(ctx context.Context) (string, error) {
		pods, err := d.pods(ctx)
		if err != nil {
			return "", err
		}
		m, err := d.members(ctx)
		if err != nil {
			return "", err
		}
		first.look(pods, m.nodes, time.Now())
		// The pods that were just looked at, not a later list: the nodes may all join between two lists.
		return allRun(pods, largest), nil
	})
	if err != nil {
		return "", err
	}
	d.Joined = first.took
	note := fmt.Sprintf("first pending pod to its node ready: %.1f s", first.took.Seconds())
	switch {
	case !first.joined:
		return "", fmt.Errorf("no pod that was pending came to a new node: the group was large enough, so nothing is shown")
	case first.took > JoinLimit:
		return note, fmt.Errorf("the first pending pod waited %.1f s for its node; the limit is %s", first.took.Seconds(), JoinLimit)
	}
	return note, d.until(ctx, d.size(largest))
}

func scaleDown(ctx context.Context, d *Demo) (string, error) {
	if err := d.noWorkload(ctx); err != nil {
		return "", err
	}
	return "", d.until(ctx, d.size(smallest))
}

// scaleByHand scales the group up and down with kubectl. An annotation keeps the autoscaler from removing the nodes
// meanwhile.
func scaleByHand(ctx context.Context, d *Demo) (string, error) {
	const keep = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	if err := d.kubectl(ctx, "annotate", "node", "--all", keep+"=true"); err != nil {
		return "", err
	}
	if err := d.scale(ctx, byHand); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.size(byHand)); err != nil {
		return "", err
	}
	if err := d.scale(ctx, smallest); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.size(smallest)); err != nil {
		return "", err
	}
	return "", d.kubectl(ctx, "annotate", "node", "--all", keep+"-")
}

func (d *Demo) scale(ctx context.Context, replicas int) error {
	return d.kubectl(ctx, "--namespace="+d.Group.Namespace, "scale", "machinedeployment", d.Group.Name, fmt.Sprintf("--replicas=%d", replicas))
}

// The changed template: another flavor, and a label for the nodes.
const (
	newFlavor          = "m1.medium"
	newLabel, newValue = "drover-demo", "rolled"
)

// roll changes the template of a group while pods run that need two nodes. Each old node may be removed only after a
// new one has joined.
func roll(ctx context.Context, d *Demo) (string, error) {
	if err := d.workload(ctx, rolled); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.running(rolled)); err != nil {
		return "", err
	}
	if err := d.until(ctx, d.size(rolled)); err != nil {
		return "", err
	}
	before, err := d.members(ctx)
	if err != nil {
		return "", err
	}
	if err := d.changeTemplate(ctx); err != nil {
		return "", err
	}
	fewest := before.usable
	err = d.until(ctx, func(ctx context.Context) (string, error) {
		m, err := d.members(ctx)
		if err != nil {
			return "", err
		}
		fewest = min(fewest, m.usable)
		return rolledOver(before, m), nil
	})
	if err != nil {
		return "", err
	}
	note := fmt.Sprintf("never fewer than %d usable nodes", fewest)
	if fewest < rolled {
		return note, fmt.Errorf("only %d nodes were usable at one time of the rollout; maxUnavailable is 0 of %d", fewest, rolled)
	}
	if err := d.until(ctx, d.running(rolled)); err != nil {
		return note, err
	}
	return note, d.noWorkload(ctx)
}

func (d *Demo) changeTemplate(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"metadata":     map[string]any{"labels": map[string]string{newLabel: newValue}},
		"providerSpec": map[string]any{"value": map[string]any{"cloudProviderSpec": map[string]any{"flavor": newFlavor}}},
	}}}})
	if err != nil {
		return err
	}
	return d.kubectl(ctx, "--namespace="+d.Group.Namespace, "patch", "machinedeployment", d.Group.Name, "--type=merge", "--patch="+string(patch))
}

// rolledOver returns what is missing until no old node exists and every node has the new template.
func rolledOver(before, now members) string {
	old := map[string]bool{}
	for _, n := range before.nodes {
		old[n.Name] = true
	}
	left, fresh := 0, 0
	for i := range now.nodes {
		n := &now.nodes[i]
		switch {
		case old[n.Name]:
			left++
		case n.Labels[newLabel] == newValue && n.Labels[corev1.LabelInstanceTypeStable] == newFlavor && sandbox.UsableNode(n):
			fresh++
		}
	}
	if left > 0 || fresh < rolled || fresh != len(now.machines) {
		return fmt.Sprintf("the rollout: %d old nodes, %d new ones of %d machines", left, fresh, len(now.machines))
	}
	return ""
}

func single(ctx context.Context, d *Demo) (string, error) {
	machine := Single(d.Group, singleName)
	if err := d.kubectlFile(ctx, "create", "machine", machine); err != nil {
		return "", err
	}
	err := d.until(ctx, func(ctx context.Context) (string, error) {
		var n corev1.Node
		if err := d.Client.Get(ctx, client.ObjectKey{Name: singleName}, &n); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if !sandbox.UsableNode(&n) {
			return "the node " + singleName + " to be usable", nil
		}
		return "", nil
	})
	if err != nil {
		return "", err
	}
	if err := d.kubectl(ctx, "--namespace="+machine.Namespace, "delete", "machine", singleName, "--wait=false"); err != nil {
		return "", err
	}
	return "", d.until(ctx, func(ctx context.Context) (string, error) { return d.remains(ctx, machine) })
}

// remains returns what still exists of a deleted Machine.
func (d *Demo) remains(ctx context.Context, m *v1alpha1.Machine) (string, error) {
	var left []string
	for what, object := range map[string]client.Object{"its Machine": m.DeepCopy(), "its Node": &corev1.Node{}} {
		key := client.ObjectKey{Name: m.Name}
		if what == "its Machine" {
			key.Namespace = m.Namespace
		}
		err := d.Client.Get(ctx, key, object)
		if client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if err == nil {
			left = append(left, what)
		}
	}
	for _, s := range d.Cloud.Servers() {
		if s.Name == m.Name {
			left = append(left, "its server")
		}
	}
	if len(left) == 0 {
		return "", nil
	}
	slices.Sort(left)
	return m.Name + " to be gone; there is still " + strings.Join(left, ", "), nil
}

// clean waits until the group has its minimum size, and compares the cloud with the Machines: each Machine has its
// server, and every resource has a Machine.
func clean(ctx context.Context, d *Demo) (string, error) {
	if err := d.until(ctx, d.size(smallest)); err != nil {
		return "", err
	}
	if err := d.until(ctx, func(ctx context.Context) (string, error) {
		m, err := d.members(ctx)
		if err != nil {
			return "", err
		}
		return surplus(d.Cloud.Leftovers(), m), nil
	}); err != nil {
		return "", err
	}
	left := d.Cloud.Leftovers()
	return fmt.Sprintf("%d servers, %d ports, %d floating IPs", len(left.Servers), len(left.Ports), len(left.FloatingIPs)), nil
}

// surplus returns what the cloud holds beyond one server, one port and one floating IP per Machine.
func surplus(l openstack.Left, m members) string {
	want := len(m.machines)
	counts := map[string]int{"servers": len(l.Servers), "ports": len(l.Ports), "floating IPs": len(l.FloatingIPs)}
	if len(l.Volumes) > 0 {
		return fmt.Sprintf("no volumes: now %d", len(l.Volumes))
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		if counts[what] != want {
			return fmt.Sprintf("as many %s as machines: now %d of %d", what, counts[what], want)
		}
	}
	return ""
}
