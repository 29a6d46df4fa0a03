package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/status"
)

// NodeSync applies the Machine's template to its Node, and completes the Node's first start.
type NodeSync struct {
	// Nodes writes Nodes. Pods reads pods from the API server.
	Nodes    client.Writer
	Pods     client.Reader
	Template *NodeTemplate
}

// retryStart is the interval at which drover looks again for the DaemonSet pods that a Node waits for, because pods are not
// watched.
const retryStart = 5 * time.Second

// Sync applies labels, annotations and taints to the Node, and removes the startup taint when the first start of the Node is
// complete. It sets the provider ID of a Node that gets none from another program. It writes the Node with one patch, and only when the Node must change. Labels and annotations that no pod needs
// wait for the patch that completes the first start, but at most for [status.LongestUnwritten].
func (n *NodeSync) Sync(ctx context.Context, s *scope.Scope) (bool, error) {
	want, err := n.Template.wanted(ctx, s)
	if err != nil {
		return false, err
	}
	if err := n.awaitStart(ctx, s); err != nil {
		return false, err
	}
	leaveUnusable(s, want)
	n.leaveContested(s, want)
	s.Progress.Synced = true
	started := s.Facts().HasStarted() || len(s.Awaited) == 0
	had, startup := nodes.RecordOf(s.Machine), ""
	if started && !had.Started {
		startup = n.Template.Start.Taint
	}
	node := s.Observed.Node.DeepCopy()
	changed := nodes.Apply(node, want, had, startup)
	if server := s.Observed.Cloud.Server; server != nil {
		changed = nodes.Identify(node, server.ProviderID) || changed
	}
	left := status.LongestUnwritten - s.Now().Sub(node.CreationTimestamp.Time)
	if changed && !started && left > 0 && nodes.OnlyLacksOwn(s.Observed.Node, node) {
		s.RequeueWithin(left)
		changed = false
	}
	if changed {
		if err := n.patchNode(ctx, s, node, want); err != nil {
			return false, err
		}
		ctrl.LoggerFrom(ctx).V(1).Info("Node synced", "node", klog.KObj(node), "started", started)
	}
	s.Machine.Status.NodeMarks = nodes.Recorded(want)
	s.Machine.Status.NodeMarks.Started = started
	s.Progress.Started = started
	return true, nil
}

// patchNode writes the Node. If it adds keys that the Machine's status does not record, it writes the status first, because a
// key without a record would never be removed.
func (n *NodeSync) patchNode(ctx context.Context, s *scope.Scope, node *corev1.Node, want v1alpha1.NodeMarks) error {
	s.Machine.Status.NodeMarks = nodes.RecordAhead(nodes.RecordOf(s.Machine), want)
	if len(nodes.Lacking(nodes.RecordOf(s.Base), want)) > 0 {
		if err := s.WriteAhead(ctx, scope.BeforeChangingNode); err != nil {
			s.Unsynced = true
			return err
		}
	}
	added := nodes.Lacking(nodes.MarksOf(s.Observed.Node), want)
	// The patch replaces the whole list of taints, so the Node must still have the list that was read.
	patch := client.MergeFromWithOptions(s.Observed.Node, client.MergeFromWithOptimisticLock{})
	if err := n.Nodes.Patch(ctx, node, patch, scope.FieldOwner); err != nil {
		s.Unsynced = true
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	s.WroteNode(node)
	s.Added(node.UID, added)
	return nil
}

// leaveUnusable removes from want what the API server would not store, and warns about it. Otherwise the Node would get nothing of its
// template, and would keep its startup taint.
func leaveUnusable(s *scope.Scope, want v1alpha1.NodeMarks) {
	faults := nodes.Unusable(want)
	marks := slices.Sorted(maps.Keys(faults))
	nodes.Leave(want, marks)
	for _, mark := range marks {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: is not put on the Node, because the API server does not store it (%s); correct the template", mark, faults[mark]))
	}
}

// leaveContested removes from want what another program keeps removing from the Node, and warns about it. Otherwise the two programs would
// write the Node without end, and a taint that comes and goes would evict pods each time (F-129).
func (n *NodeSync) leaveContested(s *scope.Scope, want v1alpha1.NodeMarks) {
	node := s.Observed.Node
	contested := slices.DeleteFunc(nodes.Lacking(nodes.MarksOf(node), want), func(mark string) bool { return !s.Contested(node.UID, mark) })
	nodes.Leave(want, contested)
	for _, mark := range contested {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: another program keeps removing it from node %s, so drover adds it only once an hour; name a taint that belongs to another program in --startup-requires, and remove the rest from the template", mark, node.Name))
	}
}

// awaitStart records what the Node still lacks to complete its first start. It reads pods only when nothing else is missing.
func (n *NodeSync) awaitStart(ctx context.Context, s *scope.Scope) error {
	if s.Facts().HasStarted() {
		return nil
	}
	s.Awaited = n.Template.Start.Missing(s.Observed.Node)
	if len(s.Awaited) > 0 || len(n.Template.Start.DaemonSets) == 0 {
		return nil
	}
	var pods corev1.PodList
	if err := n.Pods.List(ctx, &pods, client.MatchingFields{"spec.nodeName": s.Observed.Node.Name}); err != nil {
		return fmt.Errorf("listing the pods of node %s: %w", s.Observed.Node.Name, err)
	}
	for _, set := range n.Template.Start.DaemonSets {
		if !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return nodes.IsReadyPodOf(&pod, set) }) {
			s.Awaited = append(s.Awaited, fmt.Sprintf("DaemonSet %s has no Ready pod on the Node yet", set))
			s.RequeueWithin(retryStart)
		}
	}
	return nil
}

// NodeOptions configure what Nodes get from their Machines, and when the first start of a Node is complete.
type NodeOptions struct {
	// Start are the conditions under which the first start of a Node is complete. The Machine is not Ready before that.
	Start nodes.StartRules
	// AllowedLabels are the keys of reserved labels (see [v1alpha1.IsReservedNodeLabel]) that Nodes may get from their Machines.
	// Other reserved labels are not put on Nodes.
	AllowedLabels []string
	// HostLabel puts the label [v1alpha1.LabelPhysicalHost] on Nodes.
	HostLabel bool
	// GPULabel is the key of the label that holds the type of a Node's GPUs; empty when there is none. GPUResource is the name under which
	// Nodes report GPUs, in addition to the usual names.
	GPULabel    string
	GPUResource corev1.ResourceName
}

// NodeTemplate computes the labels, annotations and taints that Nodes must have.
type NodeTemplate struct {
	NodeOptions
	Provider  cloud.Provider
	Bootstrap *bootstrap.Source
}

// wanted returns the labels, annotations and taints that the Machine's Node must have. It leaves out start-up taints of other
// programs: the kubelet registers with such a taint, and the other program removes it. It also leaves out reserved labels that are not allowed.
func (k *NodeTemplate) wanted(ctx context.Context, s *scope.Scope) (v1alpha1.NodeMarks, error) {
	labels, err := k.Bootstrap.NodeLabels(ctx, s.Machine)
	if err != nil {
		return v1alpha1.NodeMarks{}, err
	}
	for _, key := range v1alpha1.WithheldNodeLabels(k.AllowedLabels, labels) {
		delete(labels, key)
	}
	w := nodes.Wanted(s.Machine, labels, k.hostOf(s))
	for _, t := range s.Machine.Spec.Taints {
		if slices.Contains(k.Start.OtherTaints, t.Key) || v1alpha1.IsStartupTaint(t.Key) {
			delete(w.Taints, nodes.TaintKey(t))
		}
	}
	if node := s.Observed.Node; node != nil {
		nodes.MarkGPUs(w, node, k.GPULabel, k.GPUResource)
	}
	return w, nil
}

// hostOf returns the ID of the physical host as the cloud reports it now, or otherwise as the status records it. It returns an empty
// string when Nodes do not get it as a label.
func (k *NodeTemplate) hostOf(s *scope.Scope) string {
	if !k.HostLabel {
		return ""
	}
	if server := s.Observed.Cloud.Server; server != nil && server.HostID != "" {
		return server.HostID
	}
	return k.Provider.Remembered(s.Machine).HostID
}
