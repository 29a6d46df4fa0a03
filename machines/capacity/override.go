package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// override holds the values that a deployment's annotations set for its nodes.
type override struct {
	// capacity holds CPU, memory, disk and pods.
	capacity corev1.ResourceList
	gpuType  string
	gpuCount int64
	labels   map[string]string
	taints   []corev1.Taint
	// ignored describes, for users, the annotations whose values cannot be used.
	ignored []string
}

// readOverride reads the annotations. A value that cannot be used is ignored, and so is one part of a list of labels or taints; the others
// apply.
func readOverride(annotations map[string]string) override {
	o := override{capacity: corev1.ResourceList{}}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ok := strings.CutPrefix(key, v1alpha1.AnnotationCapacity)
		if !ok {
			continue
		}
		if err := o.set(name, annotations[key]); err != nil {
			o.ignored = append(o.ignored, fmt.Sprintf("annotation %s has the value %q: %v", key, annotations[key], err))
		}
	}
	if o.gpuCount > 0 && o.gpuType == "" {
		o.gpuCount = 0
		o.ignored = append(o.ignored, fmt.Sprintf("annotation %sgpu-count needs %sgpu-type, the name of the resource", v1alpha1.AnnotationCapacity, v1alpha1.AnnotationCapacity))
	}
	return o
}

// set reads one annotation of a node template. An empty value sets nothing, because charts render "none" in that way. It ignores names that
// drover does not know, such as csi-driver.
func (o *override) set(name, value string) (err error) {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	switch name {
	case "cpu":
		return o.have(corev1.ResourceCPU, value)
	case "memory":
		return o.have(corev1.ResourceMemory, value)
	case "ephemeral-disk":
		return o.have(corev1.ResourceEphemeralStorage, value)
	case "maxPods":
		pods, err := count(value)
		if err != nil || pods == 0 {
			return err
		}
		o.capacity[corev1.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	case "gpu-type":
		if problems := validation.IsQualifiedName(value); len(problems) > 0 {
			return fmt.Errorf("it is not the name of a resource: %s", problems[0])
		}
		o.gpuType = value
	case "gpu-count":
		o.gpuCount, err = count(value)
	case "labels":
		o.labels, err = labelsOf(value)
	case "taints":
		o.taints, err = taintsOf(value)
	}
	return err
}

// have sets the quantity of a resource. A quantity of 0 sets nothing.
func (o *override) have(name corev1.ResourceName, value string) error {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return fmt.Errorf("it must be a quantity such as 4 or 16Gi")
	}
	if !q.IsZero() {
		o.capacity[name] = q
	}
	return nil
}

// within lowers the resources that annotations or a class have set to those of the flavor, and the number of GPUs in annotations too. It
// returns a text for each one that was above. A disk of 0 and no GPUs mean that the flavor states none, and limit nothing.
func (o *override) within(flavor cloud.Shape, shape *cloud.Shape) (refuted []string) {
	for _, r := range []struct {
		name  corev1.ResourceName
		value *resource.Quantity
		most  resource.Quantity
	}{
		{corev1.ResourceCPU, &shape.CPU, flavor.CPU},
		{corev1.ResourceMemory, &shape.Memory, flavor.Memory},
		{corev1.ResourceEphemeralStorage, &shape.Disk, flavor.Disk},
	} {
		if r.most.Sign() > 0 && r.value.Cmp(r.most) > 0 {
			refuted = append(refuted, fmt.Sprintf("an annotation or the class sets %s=%s (the flavor has %s)", r.name, r.value.String(), r.most.String()))
			*r.value = r.most.DeepCopy()
		}
	}
	if flavor.GPUs > 0 && o.gpuCount > flavor.GPUs {
		refuted = append(refuted, fmt.Sprintf("an annotation sets %s=%d (the flavor has %d)", o.gpuType, o.gpuCount, flavor.GPUs))
		o.gpuCount = flavor.GPUs
	}
	return refuted
}

// extend adds to the template the labels, taints and GPUs that annotations set.
func (o override) extend(t *v1alpha1.NodeTemplate) {
	maps.Copy(t.Labels, o.labels)
	t.Taints = withTaints(t.Taints, o.taints)
	addGPUs(t, corev1.ResourceName(o.gpuType), o.gpuCount)
}

// withTaints adds taints to a list. A taint replaces the one with the same key and effect, of which a node has only one.
func withTaints(list, more []corev1.Taint) []corev1.Taint {
	for _, t := range more {
		if i := slices.IndexFunc(list, func(o corev1.Taint) bool { return o.MatchTaint(&t) }); i >= 0 {
			list[i] = t
		} else {
			list = append(list, t)
		}
	}
	return list
}

func count(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("it must be a whole number")
	}
	return n, nil
}

// partsOf returns the parts of a list that is separated by commas, without the empty ones.
func partsOf(value string) (parts []string) {
	for _, part := range strings.Split(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// labelsOf parses key=value pairs, separated by commas. Its error names the parts that are none; the others are returned nevertheless.
func labelsOf(value string) (map[string]string, error) {
	out := map[string]string{}
	var wrong []string
	for _, part := range partsOf(value) {
		key, v, ok := strings.Cut(part, "=")
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			wrong = append(wrong, part)
			continue
		}
		out[key] = v
	}
	return out, unusable(wrong, "a label of the form key=value")
}

// unusable returns an error that names the parts of a list that are not what they must be; nil when there are none.
func unusable(parts []string, what string) error {
	if len(parts) == 0 {
		return nil
	}
	return fmt.Errorf("%q is not %s", parts, what)
}

// taintsOf parses key=value:effect, separated by commas. The value may be missing. Its error names the parts that are none; the others are
// returned nevertheless.
func taintsOf(value string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	var wrong []string
	for _, part := range partsOf(value) {
		rest, effect, ok := strings.Cut(part, ":")
		key, v, _ := strings.Cut(rest, "=")
		t := corev1.Taint{Key: key, Value: v, Effect: corev1.TaintEffect(effect)}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			ok = false
		}
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			wrong = append(wrong, part)
			continue
		}
		out = append(out, t)
	}
	return out, unusable(wrong, "a taint of the form key=value:NoSchedule")
}
