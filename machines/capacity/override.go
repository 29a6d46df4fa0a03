package capacity

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
)

// override holds the values that a deployment's annotations set for its nodes.
type override struct {
	cpu, memory, disk *resource.Quantity
	maxPods           int32
	gpuType           string
	gpuCount          int64
	labels            map[string]string
	taints            []corev1.Taint
}

// readOverride reads the annotations. Its error names the annotation and the value.
func readOverride(annotations map[string]string) (override, error) {
	var o override
	for key, value := range annotations {
		name, ok := strings.CutPrefix(key, v1alpha1.AnnotationCapacity)
		if !ok {
			continue
		}
		if err := o.set(name, value); err != nil {
			return override{}, fmt.Errorf("annotation %s has the value %q: %w", key, value, err)
		}
	}
	if o.gpuCount > 0 && o.gpuType == "" {
		return override{}, fmt.Errorf("annotation %sgpu-count needs %sgpu-type, the name of the resource", v1alpha1.AnnotationCapacity, v1alpha1.AnnotationCapacity)
	}
	return o, nil
}

// set reads one annotation of a node template. It ignores names that drover does not know, such as csi-driver.
func (o *override) set(name, value string) (err error) {
	switch name {
	case "cpu":
		o.cpu, err = positive(value)
	case "memory":
		o.memory, err = positive(value)
	case "ephemeral-disk":
		o.disk, err = positive(value)
	case "maxPods":
		var n int64
		n, err = count(value)
		o.maxPods = int32(n)
	case "gpu-type":
		o.gpuType = value
		if problems := validation.IsQualifiedName(value); len(problems) > 0 {
			err = fmt.Errorf("it is not the name of a resource: %s", problems[0])
		}
	case "gpu-count":
		o.gpuCount, err = count(value)
	case "labels":
		o.labels, err = labelsOf(value)
	case "taints":
		o.taints, err = taintsOf(value)
	}
	return err
}

// apply replaces the values of the flavor and the kubelet's settings by those of the override.
func (o override) apply(shape *cloud.Shape, settings *bootstrap.KubeletSettings) {
	for into, value := range map[*resource.Quantity]*resource.Quantity{&shape.CPU: o.cpu, &shape.Memory: o.memory, &shape.Disk: o.disk} {
		if value != nil {
			*into = *value
		}
	}
	if o.maxPods > 0 {
		settings.MaxPods = o.maxPods
	}
}

// extend adds to the template the labels, taints and GPUs that annotations set.
func (o override) extend(t *v1alpha1.NodeTemplate) {
	for key, value := range o.labels {
		t.Labels[key] = value
	}
	t.Taints = append(t.Taints, o.taints...)
	if o.gpuCount > 0 {
		gpus := *resource.NewQuantity(o.gpuCount, resource.DecimalSI)
		t.Capacity[corev1.ResourceName(o.gpuType)], t.Allocatable[corev1.ResourceName(o.gpuType)] = gpus, gpus
	}
}

func positive(value string) (*resource.Quantity, error) {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() <= 0 {
		return nil, fmt.Errorf("it must be a quantity above 0, such as 4 or 16Gi")
	}
	return &q, nil
}

func count(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("it must be a whole number")
	}
	return n, nil
}

// labelsOf parses key=value pairs, separated by commas.
func labelsOf(value string) (map[string]string, error) {
	out := map[string]string{}
	for _, part := range strings.Split(value, ",") {
		key, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			return nil, fmt.Errorf("%q is not a label of the form key=value", part)
		}
		out[key] = v
	}
	return out, nil
}

// taintsOf parses key=value:effect, separated by commas. The value may be missing.
func taintsOf(value string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for _, part := range strings.Split(value, ",") {
		rest, effect, ok := strings.Cut(strings.TrimSpace(part), ":")
		key, v, _ := strings.Cut(rest, "=")
		t := corev1.Taint{Key: key, Value: v, Effect: corev1.TaintEffect(effect)}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			ok = false
		}
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			return nil, fmt.Errorf("%q is not a taint of the form key=value:NoSchedule", part)
		}
		out = append(out, t)
	}
	return out, nil
}
