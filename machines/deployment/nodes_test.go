package deployment

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// patched returns the node with a merge patch applied to it.
func patched(t *testing.T, node *corev1.Node, patch map[string]any) *corev1.Node {
	t.Helper()
	before, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, body, corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Node{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}

var rolledBy = rollingRecord{Deployment: "ns/md"}

func TestAReplacementNodeLosesDroversAnnotationsWhenTheReplacedNodeIsDrained(t *testing.T) {
	was := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", Annotations: map[string]string{"note": "x"}}}
	marked := patched(t, was, addPatch(was, rollingRecord{Deployment: "ns/md", Replaces: true}))
	if hasTaint(marked) || marked.Annotations[v1alpha1.AnnotationScaleDownDisabled] != "true" {
		t.Errorf("annotations and taints after addPatch(): %v %v", marked.Annotations, marked.Spec.Taints)
	}
	free := patched(t, marked, removePatch(marked))
	if diff := cmp.Diff(was.Annotations, free.Annotations) + cmp.Diff(was.Spec.Taints, free.Spec.Taints, emptyIsNil); diff != "" {
		t.Errorf("removePatch() does not restore the Node (-before +after):\n%s", diff)
	}
}

func TestTheTaintsAndAnnotationsOfANodeAreRestoredAfterARollout(t *testing.T) {
	theirs := corev1.Taint{Key: "people", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Taint{Key: v1alpha1.TaintRolling, Effect: corev1.TaintEffectPreferNoSchedule}
	node := func(annotations map[string]string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", ResourceVersion: "7", Annotations: annotations}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	for name, was := range map[string]*corev1.Node{
		"a Node that had neither taints nor annotations has none after the rollout":                      node(nil),
		"taints and annotations of other programs are the same after the rollout":                        node(map[string]string{"note": "x"}, theirs),
		"the scale-down of a Node is disabled after the rollout when an operator had disabled it before": node(map[string]string{v1alpha1.AnnotationScaleDownDisabled: "true"}, theirs),
		"the scale-down of a Node is enabled after the rollout when an operator had enabled it before":   node(map[string]string{v1alpha1.AnnotationScaleDownDisabled: "false"}),
		"drover's taint stays on a Node when an operator had set it before the rollout":                  node(map[string]string{"note": "x"}, ours, theirs),
		"drover's taint and annotation stay on a Node when an operator had set both before the rollout":  node(map[string]string{v1alpha1.AnnotationScaleDownDisabled: "true"}, ours),
		"a NoExecute taint with the key of drover's taint is unchanged after the rollout":                node(nil, corev1.Taint{Key: v1alpha1.TaintRolling, Value: "v", Effect: corev1.TaintEffectNoExecute}),
	} {
		t.Run(name+" (MCM-20)", func(t *testing.T) {
			marked := patched(t, was, addPatch(was, rolledBy))
			if !hasTaint(marked) || marked.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "" {
				t.Errorf("annotations and taints after addPatch(): %v %v", marked.Annotations, marked.Spec.Taints)
			}
			if got := rollingDeployment(marked); len(got) != 1 || got[0] != "ns/md" {
				t.Errorf("rollingDeployment() = %v", got)
			}
			if again := addPatch(marked, rolledBy); again != nil {
				t.Errorf("second addPatch() = %v, want nil", again)
			}
			free := patched(t, marked, removePatch(marked))
			if diff := cmp.Diff(was.Annotations, free.Annotations, emptyIsNil) + cmp.Diff(was.Spec.Taints, free.Spec.Taints, emptyIsNil); diff != "" {
				t.Errorf("removePatch() does not restore the Node (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("a NoSchedule taint with the key of drover's taint stays during and after the rollout (F-47)", func(t *testing.T) {
		other := corev1.Taint{Key: v1alpha1.TaintRolling, Effect: corev1.TaintEffectNoSchedule}
		marked := patched(t, node(nil, other), addPatch(node(nil, other), rolledBy))
		if diff := cmp.Diff([]corev1.Taint{other, ours}, marked.Spec.Taints); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]corev1.Taint{other}, patched(t, marked, removePatch(marked)).Spec.Taints); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("an annotation and a taint that an operator sets on a Node during the rollout stay after it (MCM-20)", func(t *testing.T) {
		was := node(nil)
		marked := patched(t, was, addPatch(was, rolledBy))
		marked.Annotations[v1alpha1.AnnotationScaleDownDisabled] = "false"
		marked.Spec.Taints = []corev1.Taint{theirs}
		free := patched(t, marked, removePatch(marked))
		if free.Annotations[v1alpha1.AnnotationScaleDownDisabled] != "false" || len(free.Spec.Taints) != 1 || free.Spec.Taints[0] != theirs {
			t.Errorf("annotations and taints after removePatch(): %v %v", free.Annotations, free.Spec.Taints)
		}
	})
}

var emptyIsNil = cmp.FilterValues(func(a, b any) bool { return isEmpty(a) && isEmpty(b) }, cmp.Ignore())

func isEmpty(value any) bool {
	switch v := value.(type) {
	case map[string]string:
		return len(v) == 0
	case []corev1.Taint:
		return len(v) == 0
	}
	return false
}

func TestOnlyNodesThatARolloutRemovesKeepTheRolloutTaint(t *testing.T) {
	deployment := types.NamespacedName{Namespace: "ns", Name: "md"}
	marked := func(name string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		return patched(t, node, addPatch(node, rolledBy))
	}
	leaves, stays := marked("leaves"), marked("stays")
	c := fake.NewClientBuilder().WithObjects(leaves, stays).WithIndex(&corev1.Node{}, rollingIndex, rollingDeployment).Build()
	r := rolledNodes{ownership.Writer{Client: c, FieldManager: fieldManager}}
	if _, err := r.sync(t.Context(), deployment, rollout.Plan{Leaving: []string{"leaves"}}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		node string
		want bool
	}{
		"a Node whose Machine is being removed keeps the taint (F-57)":             {"leaves", true},
		"a Node that the rollout does not replace any more loses the taint (F-57)": {"stays", false},
	} {
		t.Run(name, func(t *testing.T) {
			var node corev1.Node
			if err := c.Get(t.Context(), types.NamespacedName{Name: tt.node}, &node); err != nil {
				t.Fatal(err)
			}
			if got := hasTaint(&node); got != tt.want {
				t.Errorf("tainted %v, want %v: %v", got, tt.want, node.Annotations)
			}
		})
	}
}

func TestARolloutTaintsOnlyNodesOfMachinesInTheDeploymentsNamespace(t *testing.T) {
	deployment := types.NamespacedName{Namespace: "ns", Name: "md"}
	for _, tt := range []struct {
		name, machine string
		marked        bool
	}{
		{"a Node gets no taint when it belongs to no Machine (F-4)", "", false},
		{"a Node gets no taint when it belongs to a Machine in another namespace (F-4)", "ns2/m", false},
		{"a Node gets the taint when it belongs to a Machine in the deployment's namespace", "ns/m", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: tt.machine}}}
			c := fake.NewClientBuilder().WithObjects(node).WithIndex(&corev1.Node{}, rollingIndex, rollingDeployment).Build()
			r := rolledNodes{ownership.Writer{Client: c, FieldManager: fieldManager}}
			if _, err := r.sync(t.Context(), deployment, rollout.Plan{Rolled: []string{"n"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), types.NamespacedName{Name: "n"}, node); err != nil {
				t.Fatal(err)
			}
			if got := hasTaint(node); got != tt.marked {
				t.Errorf("tainted %v, want %v", got, tt.marked)
			}
		})
	}
}
