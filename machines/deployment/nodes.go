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
	"github.com/drover-project/drover/machines/patch"
	"github.com/drover-project/drover/machines/rollout"
)

const (
	// rollingIndex finds Nodes by the deployment that marked them.
	rollingIndex = "node.rolling"
	// marksPerPass bounds how many Nodes are written in one look at a deployment; the rest follows in the next.
	marksPerPass = 100
)

// rollingMarks is what drover put on a Node because its Machine is being rolled, or replaces one that still drains. It
// stands in an annotation of the Node: exactly that is undone, and what others had put there before stays (MCM-20).
type rollingMarks struct {
	Deployment string `json:"deployment"`
	// Replaces: the Node is one that others drain to; it gets no taint.
	Replaces  bool `json:"replaces,omitempty"`
	Taint     bool `json:"taint,omitempty"`
	ScaleDown bool `json:"scaleDownDisabled,omitempty"`
}

// rolledNodes marks the Nodes that are rolled.
type rolledNodes struct {
	// target is the cluster of the Nodes.
	target client.Client
}

// rollingDeployment is the index of a Node.
func rollingDeployment(o client.Object) []string {
	if marks, ok := marksOf(o); ok {
		return []string{marks.Deployment}
	}
	return nil
}

func marksOf(node client.Object) (rollingMarks, bool) {
	var marks rollingMarks
	recorded, ok := node.GetAnnotations()[v1alpha1.AnnotationNodeRolling]
	if !ok || json.Unmarshal([]byte(recorded), &marks) != nil {
		return rollingMarks{}, false
	}
	return marks, true
}

// mark keeps the scheduler and the autoscaler off the Nodes that are being rolled, and the autoscaler off those that
// replace one which still drains; it sets free those that are neither any more, unless they leave. It reports whether some are
// left for the next look.
func (r rolledNodes) mark(ctx context.Context, deployment types.NamespacedName, plan rollout.Plan) (more bool, err error) {
	var marked corev1.NodeList
	if err := r.target.List(ctx, &marked, client.MatchingFields{rollingIndex: deployment.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Nodes being rolled: %w", err)
	}
	wanted := make(map[string]rollingMarks, len(plan.Rolled)+len(plan.Replacements))
	for _, name := range plan.Replacements {
		wanted[name] = rollingMarks{Deployment: deployment.String(), Replaces: true}
	}
	for _, name := range plan.Rolled {
		wanted[name] = rollingMarks{Deployment: deployment.String()}
	}
	var errs []error
	written := 0
	write := func(node *corev1.Node, patch map[string]any) {
		if written++; written <= marksPerPass {
			errs = append(errs, r.patch(ctx, node, patch))
		}
	}
	for i := range marked.Items {
		node := &marked.Items[i]
		want, keep := wanted[node.Name]
		delete(wanted, node.Name)
		if is, _ := marksOf(node); keep && is.Replaces == want.Replaces || slices.Contains(plan.Leaving, node.Name) {
			continue
		}
		write(node, unmarking(node))
		more = more || keep // the next reconcile marks it again
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		node := &corev1.Node{}
		if err := r.target.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
			errs = append(errs, client.IgnoreNotFound(err))
			continue
		}
		if !hasMachineIn(node, deployment.Namespace) {
			continue
		}
		if patch := marking(node, wanted[name]); patch != nil {
			write(node, patch)
		}
	}
	return more || written > marksPerPass, errors.Join(errs...)
}

// hasMachineIn reports whether the Node is that of a Machine in the namespace, as the Machine controller has noted on it. A
// status that only names the Node is no reason to write it.
func hasMachineIn(node *corev1.Node, namespace string) bool {
	return strings.HasPrefix(node.Annotations[v1alpha1.AnnotationNodeMachine], namespace+"/")
}

// marking is the patch that marks a Node; nil when another deployment has marked it.
func marking(node *corev1.Node, marks rollingMarks) map[string]any {
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

// unmarking returns the patch that removes what drover put on the Node, as the Node's record lists it. A value that another
// client has changed since then stays.
func unmarking(node *corev1.Node) map[string]any {
	marks, _ := marksOf(node)
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

// nodePatch merges annotations and, unless nil, replaces the list of taints, which so must be the one that was read.
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

// patchNode writes a Node's marks and nothing else.
func (r rolledNodes) patch(ctx context.Context, node *corev1.Node, fields map[string]any) error {
	err := patch.Writer{Client: r.target, FieldManager: fieldManager}.Merge(ctx, node.DeepCopy(), fields)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking node %s: %w", node.Name, err)
	}
	return nil
}
