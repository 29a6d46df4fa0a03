package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

const (
	// rollingIndex finds Nodes by the deployment whose rollout has tainted or annotated them.
	rollingIndex = "node.rolling"
	// nodesPerReconcile limits how many Nodes one reconcile of a deployment writes. The next reconcile continues.
	nodesPerReconcile = 100
)

// rollingRecord records what drover has put on a Node because the Node's Machine is being rolled, or because it replaces a Machine that
// still drains. The record is stored in an annotation of the Node. drover removes exactly what is recorded, and keeps what others had put
// on the Node before (MCM-20).
type rollingRecord struct {
	Deployment string `json:"deployment"`
	// Replaces is true when pods of a draining Machine move to the Node. Such a Node gets no taint.
	Replaces  bool `json:"replaces,omitempty"`
	Taint     bool `json:"taint,omitempty"`
	ScaleDown bool `json:"scaleDownDisabled,omitempty"`
}

// rolledNodes taints and annotates the Nodes that are rolled. It has the client of the cluster with the Nodes.
type rolledNodes struct{ ownership.Writer }

// rollingDeployment returns the index key of a Node.
func rollingDeployment(o client.Object) []string {
	if marks, ok := recordOf(o); ok {
		return []string{marks.Deployment}
	}
	return nil
}

func recordOf(node client.Object) (rollingRecord, bool) {
	var marks rollingRecord
	recorded, ok := node.GetAnnotations()[v1alpha1.AnnotationNodeRolling]
	if !ok || json.Unmarshal([]byte(recorded), &marks) != nil {
		return rollingRecord{}, false
	}
	return marks, true
}

// sync keeps the scheduler and the autoscaler off the Nodes that are being rolled. It keeps the autoscaler off the Nodes that
// replace a Node that still drains. It removes drover's taint and annotations from all other Nodes, unless their Machines are
// being deleted. It reports whether some Nodes are left for the next reconcile.
func (r rolledNodes) sync(ctx context.Context, deployment types.NamespacedName, plan rollout.Plan) (more bool, err error) {
	var marked corev1.NodeList
	if err := r.Client.List(ctx, &marked, client.MatchingFields{rollingIndex: deployment.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Nodes being rolled: %w", err)
	}
	wanted := make(map[string]rollingRecord, len(plan.Rolled)+len(plan.Replacements))
	for _, name := range plan.Replacements {
		wanted[name] = rollingRecord{Deployment: deployment.String(), Replaces: true}
	}
	for _, name := range plan.Rolled {
		wanted[name] = rollingRecord{Deployment: deployment.String()}
	}
	var errs []error
	written := 0
	write := func(node *corev1.Node, patch map[string]any) {
		if written++; written <= nodesPerReconcile {
			errs = append(errs, r.patch(ctx, node, patch))
		}
	}
	for i := range marked.Items {
		node := &marked.Items[i]
		want, keep := wanted[node.Name]
		delete(wanted, node.Name)
		if is, _ := recordOf(node); keep && is.Replaces == want.Replaces || slices.Contains(plan.Leaving, node.Name) {
			continue
		}
		write(node, removePatch(node))
		more = more || keep // the Node needs another record, which the next reconcile adds
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		node := &corev1.Node{}
		if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
			errs = append(errs, client.IgnoreNotFound(err))
			continue
		}
		if !hasMachineIn(node, deployment.Namespace) {
			continue
		}
		if patch := addPatch(node, wanted[name]); patch != nil {
			write(node, patch)
		}
	}
	return more || written > nodesPerReconcile, errors.Join(errs...)
}

// hasMachineIn reports whether the Node belongs to a Machine of the namespace, according to the annotation that the Machine controller
// sets on the Node. It ignores a Node that only a Machine's status names.
func hasMachineIn(node *corev1.Node, namespace string) bool {
	return strings.HasPrefix(node.Annotations[v1alpha1.AnnotationNodeMachine], namespace+"/")
}

// addPatch returns the patch that taints and annotates a Node; nil when the Node already has a rollingRecord.
func addPatch(node *corev1.Node, marks rollingRecord) map[string]any {
	if _, there := node.Annotations[v1alpha1.AnnotationNodeRolling]; there {
		return nil
	}
	_, given := node.Annotations[v1alpha1.AnnotationScaleDownDisabled]
	marks.Taint, marks.ScaleDown = !marks.Replaces && !hasTaint(node), !given
	record, err := json.Marshal(marks)
	if err != nil {
		return nil
	}
	annotations := map[string]any{v1alpha1.AnnotationNodeRolling: string(record)}
	if marks.ScaleDown {
		annotations[v1alpha1.AnnotationScaleDownDisabled] = "true"
	}
	if !marks.Taint {
		return nodePatch(node, annotations, nil)
	}
	return nodePatch(node, annotations, append(slices.Clone(node.Spec.Taints), rollingTaint))
}

// removePatch returns the patch that removes what drover put on the Node, according to the record on the Node. The patch keeps a value that
// another client has changed since then.
func removePatch(node *corev1.Node) map[string]any {
	marks, _ := recordOf(node)
	annotations := map[string]any{v1alpha1.AnnotationNodeRolling: nil}
	if marks.ScaleDown && node.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "true" {
		annotations[v1alpha1.AnnotationScaleDownDisabled] = nil
	}
	if !marks.Taint || !hasTaint(node) {
		return nodePatch(node, annotations, nil)
	}
	left := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(&rollingTaint) })
	return nodePatch(node, annotations, left)
}

// nodePatch returns a patch that merges annotations and, unless taints is nil, replaces the list of taints. The API server refuses the
// patch when the Node's taints have changed since the Node was read.
func nodePatch(node *corev1.Node, annotations map[string]any, taints []corev1.Taint) map[string]any {
	metadata := map[string]any{"uid": node.UID, "annotations": annotations}
	patch := map[string]any{"metadata": metadata}
	if taints != nil {
		metadata["resourceVersion"] = node.ResourceVersion
		patch["spec"] = map[string]any{"taints": taints}
	}
	return patch
}

// rollingTaint is the taint of Nodes that are being rolled.
var rollingTaint = corev1.Taint{Key: v1alpha1.TaintRolling, Effect: corev1.TaintEffectPreferNoSchedule}

func hasTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&rollingTaint) })
}

// patch writes the given fields of a Node.
func (r rolledNodes) patch(ctx context.Context, node *corev1.Node, fields map[string]any) error {
	err := r.Merge(ctx, node.DeepCopy(), fields)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the rollout's taint and annotations of node %s: %w", node.Name, err)
	}
	return nil
}
