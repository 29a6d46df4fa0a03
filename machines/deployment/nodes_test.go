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
	"github.com/drover-project/drover/machines/rollout"
)

// patched is a node after a merge patch.
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

var rolledBy = rollingMarks{Deployment: "ns/md"}

func TestMarksOfANodeThatReplacesAnother(t *testing.T) {
	was := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", Annotations: map[string]string{"note": "x"}}}
	marked := patched(t, was, marking(was, rollingMarks{Deployment: "ns/md", Replaces: true}))
	if hasTaint(marked) || marked.Annotations[v1alpha1.AnnotationScaleDownDisabled] != "true" {
		t.Errorf("marked: %v %v", marked.Annotations, marked.Spec.Taints)
	}
	free := patched(t, marked, unmarking(marked))
	if diff := cmp.Diff(was.Annotations, free.Annotations) + cmp.Diff(was.Spec.Taints, free.Spec.Taints, emptyIsNil); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
}

func TestMarksOfANodeBeingRolled(t *testing.T) {
	theirs := corev1.Taint{Key: "people", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Taint{Key: v1alpha1.TaintRolling, Effect: corev1.TaintEffectPreferNoSchedule}
	node := func(annotations map[string]string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", ResourceVersion: "7", Annotations: annotations}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	for name, was := range map[string]*corev1.Node{
		"a plain one":                      node(nil),
		"one with marks of others":         node(map[string]string{"note": "x"}, theirs),
		"one that people keep":             node(map[string]string{v1alpha1.AnnotationScaleDownDisabled: "true"}, theirs),
		"one that people give up":          node(map[string]string{v1alpha1.AnnotationScaleDownDisabled: "false"}),
		"one that people have tainted so":  node(map[string]string{"note": "x"}, ours, theirs),
		"one that bears both from people":  node(map[string]string{v1alpha1.AnnotationScaleDownDisabled: "true"}, ours),
		"one with a taint of another kind": node(nil, corev1.Taint{Key: v1alpha1.TaintRolling, Value: "v", Effect: corev1.TaintEffectNoExecute}),
	} {
		t.Run("MCM-20 "+name+" is marked and set free exactly", func(t *testing.T) {
			marked := patched(t, was, marking(was, rolledBy))
			if !hasTaint(marked) || marked.Annotations[v1alpha1.AnnotationScaleDownDisabled] == "" {
				t.Errorf("marked: %v %v", marked.Annotations, marked.Spec.Taints)
			}
			if got := rollingDeployment(marked); len(got) != 1 || got[0] != "ns/md" {
				t.Errorf("it is found under %v", got)
			}
			if again := marking(marked, rolledBy); again != nil {
				t.Errorf("it is marked twice: %v", again)
			}
			free := patched(t, marked, unmarking(marked))
			if diff := cmp.Diff(was.Annotations, free.Annotations, emptyIsNil) + cmp.Diff(was.Spec.Taints, free.Spec.Taints, emptyIsNil); diff != "" {
				t.Errorf("-before +after\n%s", diff)
			}
		})
	}
	t.Run("a taint of the same key with another effect is somebody else's (F-47)", func(t *testing.T) {
		other := corev1.Taint{Key: v1alpha1.TaintRolling, Effect: corev1.TaintEffectNoSchedule}
		marked := patched(t, node(nil, other), marking(node(nil, other), rolledBy))
		if diff := cmp.Diff([]corev1.Taint{other, ours}, marked.Spec.Taints); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]corev1.Taint{other}, patched(t, marked, unmarking(marked)).Spec.Taints); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("MCM-20 what people set meanwhile is theirs", func(t *testing.T) {
		was := node(nil)
		marked := patched(t, was, marking(was, rolledBy))
		marked.Annotations[v1alpha1.AnnotationScaleDownDisabled] = "false"
		marked.Spec.Taints = []corev1.Taint{theirs}
		free := patched(t, marked, unmarking(marked))
		if free.Annotations[v1alpha1.AnnotationScaleDownDisabled] != "false" || len(free.Spec.Taints) != 1 || free.Spec.Taints[0] != theirs {
			t.Errorf("set free: %v %v", free.Annotations, free.Spec.Taints)
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

func TestMarksOfANodeThatLeaves(t *testing.T) {
	deployment := types.NamespacedName{Namespace: "ns", Name: "md"}
	marked := func(name string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		return patched(t, node, marking(node, rolledBy))
	}
	leaves, stays := marked("leaves"), marked("stays")
	c := fake.NewClientBuilder().WithObjects(leaves, stays).WithIndex(&corev1.Node{}, rollingIndex, rollingDeployment).Build()
	r := rolledNodes{target: c}
	if _, err := r.mark(t.Context(), deployment, rollout.Plan{Leaving: []string{"leaves"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"leaves": true, "stays": false} {
		t.Run(name+": marks stay on a Node that leaves, and go from one that is not rolled any more (F-57)", func(t *testing.T) {
			var node corev1.Node
			if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &node); err != nil {
				t.Fatal(err)
			}
			if got := hasTaint(&node); got != want {
				t.Errorf("marked %v, want %v: %v", got, want, node.Annotations)
			}
		})
	}
}

func TestANodeThatAStatusOnlyNames(t *testing.T) {
	deployment := types.NamespacedName{Namespace: "ns", Name: "md"}
	for _, tt := range []struct {
		name, machine string
		marked        bool
	}{
		{"is not marked when it is of no Machine (F-4)", "", false},
		{"is not marked when it is of a Machine in another namespace (F-4)", "ns2/m", false},
		{"is marked when it is of a Machine in the deployment's namespace", "ns/m", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: tt.machine}}}
			c := fake.NewClientBuilder().WithObjects(node).WithIndex(&corev1.Node{}, rollingIndex, rollingDeployment).Build()
			r := rolledNodes{target: c}
			if _, err := r.mark(t.Context(), deployment, rollout.Plan{Rolled: []string{"n"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), types.NamespacedName{Name: "n"}, node); err != nil {
				t.Fatal(err)
			}
			if got := hasTaint(node); got != tt.marked {
				t.Errorf("marked %v, want %v", got, tt.marked)
			}
		})
	}
}
