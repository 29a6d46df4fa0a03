package nodes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// ownKeys are the labels and annotations by which drover finds the Machine of a Node, the label of every Node with a Machine, and
// those of the physical host and of the GPUs. drover overwrites any other value of these keys, so the Machine's status need not record them. No pod
// needs them before the Node's first start is complete.
var ownKeys = []string{v1alpha1.AnnotationOwnedBy, v1alpha1.AnnotationNodeMachine, v1alpha1.LabelManaged, v1alpha1.LabelPhysicalHost, v1alpha1.LabelGPU}

// removed lists labels that drover removes from a Node when [Wanted] does not return them. machine-controller and older versions of drover
// have set the first two, whose values differ from node to node.
var removed = []string{v1alpha1.LabelOwnedBy, v1alpha1.LabelPhysicalHost, v1alpha1.LabelGPU}

// Wanted returns the labels, annotations and taints that a Machine's Node must have. host is the value of the label of the physical
// host. Without a host, the Node does not get that label.
func Wanted(m *v1alpha1.Machine, labels map[string]string, host string) v1alpha1.NodeMarks {
	w := v1alpha1.NodeMarks{Labels: map[string]string{}, Annotations: map[string]string{}, Taints: map[string]string{}}
	maps.Copy(w.Labels, labels)
	maps.Copy(w.Annotations, m.Spec.Metadata.Annotations)
	for _, t := range m.Spec.Taints {
		w.Taints[TaintKey(t)] = t.Value
	}
	if len(validation.IsValidLabelValue(host)) == 0 && host != "" {
		w.Labels[v1alpha1.LabelPhysicalHost] = host
	}
	w.Labels[v1alpha1.LabelManaged] = "true"
	w.Annotations[v1alpha1.AnnotationOwnedBy] = string(m.UID)
	w.Annotations[v1alpha1.AnnotationNodeMachine] = m.Namespace + "/" + m.Name
	return w
}

// MarkGPUs adds to the wanted labels and taints what tells the autoscaler about the GPUs of a Node that has the label with the given key. An
// empty key adds nothing. unusual is a name under which Nodes report GPUs, in addition to the usual ones. The autoscaler counts a Node that
// has [v1alpha1.LabelGPU], but none of the GPUs that it knows, as broken. So a Node with GPUs of other names gets neither label nor taint
// (F-125, F-126).
func MarkGPUs(want v1alpha1.NodeMarks, node *corev1.Node, key string, unusual corev1.ResourceName) {
	kind, labelled := node.Labels[key]
	has := node.Status.Allocatable
	switch {
	case key == "" || !labelled:
	case v1alpha1.HasResource(has, v1alpha1.IsKnownGPU):
		want.Labels[v1alpha1.LabelGPU] = kind
	case !v1alpha1.HasResource(has, func(name corev1.ResourceName) bool { return name == unusual || v1alpha1.IsGPU(name) }):
		want.Taints[TaintKey(corev1.Taint{Key: v1alpha1.TaintAwaitsGPU, Effect: corev1.TaintEffectPreferNoSchedule})] = ""
	}
}

// Lacking returns texts that name the labels, annotations and taints of want that have lacks. It leaves out those by which drover finds
// the Machine of a Node.
func Lacking(have, want v1alpha1.NodeMarks) (texts []string) {
	for _, part := range []struct {
		kind       string
		have, want map[string]string
	}{{"label ", have.Labels, want.Labels}, {"annotation ", have.Annotations, want.Annotations}, {"taint ", have.Taints, want.Taints}} {
		for _, key := range slices.Sorted(maps.Keys(part.want)) {
			if _, there := part.have[key]; !there && !slices.Contains(ownKeys, key) {
				texts = append(texts, part.kind+key)
			}
		}
	}
	return texts
}

// Unusable returns texts that name the wanted labels, annotations and taints that the API server stores on no Node, each with the reason.
// With one of them the API server would refuse the whole write of the Node.
func Unusable(want v1alpha1.NodeMarks) map[string]string {
	out := map[string]string{}
	note := func(kind, key string, faults ...[]string) {
		if all := slices.Concat(faults...); len(all) > 0 {
			out[kind+key] = all[0]
		}
	}
	for key, value := range want.Labels {
		note("label ", key, validation.IsQualifiedName(key), validation.IsValidLabelValue(value))
	}
	for key := range want.Annotations {
		note("annotation ", key, validation.IsQualifiedName(strings.ToLower(key)))
	}
	for key, value := range want.Taints {
		name := key[:strings.LastIndexByte(key, ':')]
		note("taint ", key, validation.IsQualifiedName(name), validation.IsValidLabelValue(value))
	}
	return out
}

// Leave removes the labels, annotations and taints from want that the texts (see Lacking) name.
func Leave(want v1alpha1.NodeMarks, texts []string) {
	for _, text := range texts {
		kind, key, _ := strings.Cut(text, " ")
		delete(map[string]map[string]string{"label": want.Labels, "annotation": want.Annotations, "taint": want.Taints}[kind], key)
	}
}

// MarksOf returns the labels, annotations and taints of a Node.
func MarksOf(node *corev1.Node) v1alpha1.NodeMarks {
	taints := map[string]string{}
	for _, t := range node.Spec.Taints {
		taints[TaintKey(t)] = t.Value
	}
	return v1alpha1.NodeMarks{Labels: node.Labels, Annotations: node.Annotations, Taints: taints}
}

// Recorded returns those of the wanted labels, annotations and taints that the Machine's status records: all that come from the
// template.
func Recorded(want v1alpha1.NodeMarks) *v1alpha1.NodeMarks {
	record := want.DeepCopy()
	for _, key := range ownKeys {
		delete(record.Labels, key)
		delete(record.Annotations, key)
	}
	return record
}

// RecordAhead returns the record that must be stored before the Node is changed. It contains the labels, annotations and taints
// that drover has set (had) and those that drover is about to set (want). So each can still be removed from the Node later if the
// process ends in between.
func RecordAhead(had, want v1alpha1.NodeMarks) *v1alpha1.NodeMarks {
	ahead := Recorded(want)
	maps.Copy(ahead.Labels, had.Labels)
	maps.Copy(ahead.Annotations, had.Annotations)
	maps.Copy(ahead.Taints, had.Taints)
	ahead.Started = had.Started
	return ahead
}

// RecordOf returns the labels, annotations and taints that drover has set on the Node, as the Machine's status records them.
// Without a record the result is empty, and nothing is removed from the Node.
func RecordOf(m *v1alpha1.Machine) v1alpha1.NodeMarks {
	if m.Status.NodeMarks == nil {
		return v1alpha1.NodeMarks{}
	}
	return *m.Status.NodeMarks
}

// TaintKey returns the key under which [v1alpha1.NodeMarks] holds a taint.
func TaintKey(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// Apply changes the Node so that it has the labels, annotations and taints that want lists. had lists the labels, annotations and
// taints that drover set before; Apply removes them if want does not list them any more. It also removes the startup taint, whose
// key is startup, unless startup is empty, [v1alpha1.TaintMachineGone], and the labels in removed. It does not change what other clients set, above all the taints of the
// cluster-autoscaler (CA-C81). It reports whether it changed the Node.
func Apply(node *corev1.Node, want, had v1alpha1.NodeMarks, startup string) bool {
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	merge(node.Labels, want.Labels, had.Labels)
	for _, key := range removed {
		if _, wanted := want.Labels[key]; !wanted {
			delete(node.Labels, key)
		}
	}
	merge(node.Annotations, want.Annotations, had.Annotations)
	taints := MarksOf(node).Taints
	merge(taints, want.Taints, had.Taints)
	delete(taints, TaintKey(corev1.Taint{Key: v1alpha1.TaintMachineGone, Effect: corev1.TaintEffectNoExecute}))
	if startup != "" {
		delete(taints, TaintKey(corev1.Taint{Key: startup, Effect: corev1.TaintEffectNoSchedule}))
	}
	node.Spec.Taints = withTaints(node.Spec.Taints, taints, want)
	same := maps.Equal(before.Labels, node.Labels) && maps.Equal(before.Annotations, node.Annotations) &&
		slices.EqualFunc(before.Spec.Taints, node.Spec.Taints, func(a, b corev1.Taint) bool { return TaintKey(a) == TaintKey(b) && a.Value == b.Value })
	if !same {
		delete(node.Annotations, v1alpha1.AnnotationNodeSynced)
	}
	return !same
}

// Identify sets the provider ID of a Node that has none, and reports whether it did. A Node with the taint uninitialized gets its provider
// ID from the cloud-controller-manager. Without a provider ID the cluster-autoscaler would not find the Node among the instances of its
// group, and would have its server deleted.
func Identify(node *corev1.Node, providerID string) bool {
	awaited := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintUninitialized })
	if node.Spec.ProviderID != "" || awaited {
		return false
	}
	node.Spec.ProviderID = providerID
	return providerID != ""
}

// OnlyLacksOwn reports whether a change of the Node only adds drover's own labels, annotations and provider ID.
func OnlyLacksOwn(is, becomes *corev1.Node) bool {
	return onlyAdds(is.Labels, becomes.Labels) && onlyAdds(is.Annotations, becomes.Annotations) &&
		equality.Semantic.DeepEqual(is.Spec.Taints, becomes.Spec.Taints)
}

// onlyAdds reports whether a change only adds some of drover's own keys, and neither adds, changes nor removes any other key.
func onlyAdds(is, becomes map[string]string) bool {
	kept := maps.Clone(becomes)
	for _, key := range ownKeys {
		if _, there := is[key]; !there {
			delete(kept, key)
		}
	}
	return maps.Equal(is, kept)
}

// merge changes the labels, annotations or taints of a Node, which are in on. want is the wanted content, and had is what drover
// set last, according to its record. merge removes a key that drover set and no longer wants, unless another program has changed
// its value. It sets a wanted key unless another program has set it to another value. It always sets drover's own keys.
func merge(on, want, had map[string]string) {
	for key, value := range had {
		if _, still := want[key]; !still && on[key] == value {
			delete(on, key)
		}
	}
	for key, value := range want {
		current, there := on[key]
		given, recorded := had[key]
		if !there || recorded && current == given || slices.Contains(ownKeys, key) {
			on[key] = value
		}
	}
}

// withTaints returns the taints of a Node. values maps the key (TaintKey) of each taint that the Node must have to its value. The
// existing taints come first, in their order, without those that are not in values; then follow the new taints, sorted by key.
func withTaints(on []corev1.Taint, values map[string]string, want v1alpha1.NodeMarks) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range on {
		if value, ok := values[TaintKey(t)]; ok {
			t.Value = value
			out = append(out, t)
			delete(values, TaintKey(t))
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
