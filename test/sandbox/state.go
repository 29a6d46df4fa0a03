package sandbox

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kubelet"
)

// State is the state of the sandbox at one moment.
type State struct {
	PodsPending, PodsRunning int
	// Target is the sum of the sizes of all MachineDeployments. Groups is the number of MachineDeployments.
	Target, Groups int
	// Machines is the number of Machines by phase.
	Machines          map[v1alpha1.MachinePhase]int
	Nodes, NodesReady int
	Servers           int
	// Calls is the number of calls that the cloud has answered.
	Calls int
}

// State reads the present state. It counts the pods of the default namespace only.
func (s *Sandbox) State(ctx context.Context) (State, error) {
	var pods corev1.PodList
	var groups v1alpha1.MachineDeploymentList
	var machines v1alpha1.MachineList
	var nodes corev1.NodeList
	for _, q := range []struct {
		from    client.Client
		list    client.ObjectList
		options []client.ListOption
	}{
		{s.TargetClient, &pods, []client.ListOption{client.InNamespace(corev1.NamespaceDefault)}}, {s.TargetClient, &nodes, nil},
		{s.Client, &groups, nil}, {s.Client, &machines, nil},
	} {
		if err := q.from.List(ctx, q.list, q.options...); err != nil {
			return State{}, fmt.Errorf("listing %T: %w", q.list, err)
		}
	}
	out := State{Machines: map[v1alpha1.MachinePhase]int{}, Nodes: len(nodes.Items), Groups: len(groups.Items)}
	for _, p := range pods.Items {
		switch p.Status.Phase {
		case corev1.PodPending:
			out.PodsPending++
		case corev1.PodRunning:
			out.PodsRunning++
		}
	}
	for _, g := range groups.Items {
		if g.Spec.Replicas != nil {
			out.Target += int(*g.Spec.Replicas)
		}
	}
	for i := range machines.Items {
		out.Machines[PhaseOf(&machines.Items[i])]++
	}
	for i := range nodes.Items {
		if UsableNode(&nodes.Items[i]) {
			out.NodesReady++
		}
	}
	out.Servers, out.Calls = len(s.Cloud.Servers()), s.Cloud.CallCount()
	return out, nil
}

// PhaseOf returns a Machine's phase. A Machine without a phase is Pending.
func PhaseOf(m *v1alpha1.Machine) v1alpha1.MachinePhase {
	if m.Status.Phase == nil {
		return v1alpha1.PhasePending
	}
	return *m.Status.Phase
}

// startTaints are the keys of taints that a Node has while it starts or is not Ready. A Node may have other taints
// permanently.
var startTaints = []string{
	startupTaint, kubelet.UninitializedTaint,
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable,
}

// tolerated holds the taints that every pod tolerates for five minutes (admission plugin DefaultTolerationSeconds).
var tolerated = []corev1.Taint{
	{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
}

// UsableNode reports whether a Node takes pods: it is Ready and schedulable, and has no startup taint that keeps
// ordinary pods away.
func UsableNode(n *corev1.Node) bool {
	closed := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(startTaints, t.Key) && t.Effect != corev1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(tolerated, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	})
	return !closed && !n.Spec.Unschedulable && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
