package machine

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// marks are the labels, annotations and taints that drover keeps on a node. The same type records, in an annotation of
// the node, what drover has put there: that much it also changes and removes. What others put there stays, the
// cluster-autoscaler's taints above all (CA-C81).
type marks struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Taints are values by key:effect.
	Taints map[string]string `json:"taints,omitempty"`
	// Started: the first start of the Node was completed, and the startup taint, if there is one, was removed. Both
	// happen once.
	Started bool `json:"started,omitempty"`
}

// wanted are the marks of a Machine's node; host identifies the physical host of its server, empty while not known.
func wanted(m *v1alpha1.Machine, labels map[string]string, host string) marks {
	w := marks{Labels: map[string]string{}, Annotations: map[string]string{}, Taints: map[string]string{}}
	maps.Copy(w.Labels, labels)
	maps.Copy(w.Annotations, m.Spec.Metadata.Annotations)
	for _, t := range m.Spec.Taints {
		w.Taints[taintKey(t)] = t.Value
	}
	if len(validation.IsValidLabelValue(host)) == 0 && host != "" {
		w.Labels[v1alpha1.LabelPhysicalHost] = host
	}
	w.Labels[v1alpha1.LabelOwnedBy] = string(m.UID)
	w.Annotations[v1alpha1.AnnotationNodeMachine] = m.Namespace + "/" + m.Name
	return w
}

func taintKey(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// mark gives the node what is wanted, and removes what drover put there earlier and no longer wants. With started it
// also removes the startup taint and records that, unless that was done before. It reports whether anything changed.
func mark(node *corev1.Node, want marks, startup string, started bool) (bool, error) {
	had := recorded(node)
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	always := []string{v1alpha1.LabelOwnedBy, v1alpha1.AnnotationNodeMachine, v1alpha1.LabelPhysicalHost}
	now := marks{Started: had.Started}
	now.Labels = merge(node.Labels, want.Labels, had.Labels, always)
	now.Annotations = merge(node.Annotations, want.Annotations, had.Annotations, always)
	taints := map[string]string{}
	for _, t := range node.Spec.Taints {
		taints[taintKey(t)] = t.Value
	}
	now.Taints = merge(taints, want.Taints, had.Taints, nil)
	if started && !had.Started {
		delete(taints, taintKey(corev1.Taint{Key: startup, Effect: corev1.TaintEffectNoSchedule}))
		now.Started = true
	}
	node.Spec.Taints = withTaints(node.Spec.Taints, taints, want)
	record, err := json.Marshal(now)
	if err != nil {
		return false, err
	}
	node.Annotations[v1alpha1.AnnotationNodeSynced] = string(record)
	same := maps.Equal(before.Labels, node.Labels) && maps.Equal(before.Annotations, node.Annotations) &&
		slices.EqualFunc(before.Spec.Taints, node.Spec.Taints, func(a, b corev1.Taint) bool { return taintKey(a) == taintKey(b) && a.Value == b.Value })
	return !same, nil
}

// records are the labels and annotations of a Node by which drover finds its Machine again, and the label of its host: no
// pod can be on the Node before its first start is complete that needs them.
var records = []string{v1alpha1.LabelOwnedBy, v1alpha1.LabelPhysicalHost, v1alpha1.AnnotationNodeMachine, v1alpha1.AnnotationNodeSynced}

// onlyRecords reports whether all that a Node lacks of what it is to become are records.
func onlyRecords(is, becomes *corev1.Node) bool {
	return onlyAdds(is.Labels, becomes.Labels) && onlyAdds(is.Annotations, becomes.Annotations) &&
		equality.Semantic.DeepEqual(is.Spec.Taints, becomes.Spec.Taints)
}

// onlyAdds reports whether records are added, and nothing else is added, changed or removed.
func onlyAdds(is, becomes map[string]string) bool {
	kept := maps.Clone(becomes)
	for _, key := range records {
		if _, there := is[key]; !there {
			delete(kept, key)
		}
	}
	return maps.Equal(is, kept)
}

// recorded reads what drover has put on the node. A record that cannot be read is none: then nothing is removed.
func recorded(node *corev1.Node) marks {
	var m marks
	if err := json.Unmarshal([]byte(node.Annotations[v1alpha1.AnnotationNodeSynced]), &m); err != nil {
		return marks{}
	}
	return m
}

// merge brings on to what is wanted and returns what of it is drover's. A key is drover's when it was absent, has the
// wanted value already, still has the value that drover gave it, or is one that drover always sets.
func merge(on, want, had map[string]string, always []string) map[string]string {
	for key, value := range had {
		if _, still := want[key]; !still && on[key] == value {
			delete(on, key)
		}
	}
	ours := map[string]string{}
	for key, value := range want {
		current, there := on[key]
		given, recorded := had[key]
		if !there || current == value || recorded && current == given || slices.Contains(always, key) {
			on[key] = value
			ours[key] = value
		}
	}
	return ours
}

// withTaints keeps the order of what stays, changes values, and adds what is new in the order of the alphabet.
func withTaints(on []corev1.Taint, values map[string]string, want marks) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range on {
		if value, ok := values[taintKey(t)]; ok {
			t.Value = value
			out = append(out, t)
			delete(values, taintKey(t))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want.Taints)) {
		if value, ok := values[key]; ok {
			i := strings.LastIndexByte(key, ':')
			out = append(out, corev1.Taint{Key: key[:i], Value: value, Effect: corev1.TaintEffect(key[i+1:])})
		}
	}
	return out
}
