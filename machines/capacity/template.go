package capacity

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// DefaultGPUResource is the default name under which a node reports the GPUs of a flavor.
const DefaultGPUResource corev1.ResourceName = "nvidia.com/gpu"

// Rules holds the settings for all templates.
type Rules struct {
	// StartupTaint is the key of the taint that drover removes from a node before the node takes pods. OtherStartupTaints holds the
	// keys of taints that other programs remove before the node takes pods.
	StartupTaint       string
	OtherStartupTaints []string
	// AllowedNodeLabels are the keys of reserved labels that nodes may have. Nodes get no other reserved labels, so the autoscaler must not
	// expect them, whether a template or an annotation has them.
	AllowedNodeLabels []string
	// GPUResource is the name under which a node reports its GPUs.
	GPUResource corev1.ResourceName
	// GPULabel is the key of the label that holds the type of a node's GPUs; empty when there is none.
	GPULabel string
}

// resolved is a node template together with its origin.
type resolved struct {
	*v1alpha1.NodeTemplate
	// lesson is the key under which the resources of real nodes are learned (see the function lesson).
	lesson string
	// given lists the resources that annotations or a class set. They are not learned from nodes.
	given []corev1.ResourceName
	// flavor holds what the flavor has. No node can have more.
	flavor corev1.ResourceList
	// refuted describes, for users, the values of nodes, annotations and the class that the template does not contain, because they cannot
	// be read or the flavor does not allow them.
	refuted []string
	// guessed lists the labels whose values are only probable.
	guessed []string
	// unlike describes, for users, how the group's nodes differ from each other and from the template.
	unlike []string
	// settings holds the settings that annotations set for the kubelets of new nodes.
	settings bootstrap.KubeletSettings
}

// template returns the template node: the node that a new Machine becomes on a server of this shape, as it is when it begins to take
// pods. The node has its permanent labels and taints. It lacks the taints that are removed before it takes pods: startup taints, and
// those of the cloud-controller-manager and of the node lifecycle. Values of a MachineClass replace those of the flavor, and annotations
// replace both. Neither can give a node more than the flavor has: the autoscaler would send the group pods that fit on other groups' nodes,
// and not on these (F-92).
//
// template returns an error of class Invalid when the amounts that kubelet annotations reserve cannot be subtracted.
func (r Rules) template(s *subject, shape cloud.Shape, class *v1alpha1.ClassNodeTemplate) (resolved, error) {
	settings := s.owners.KubeletSettings(s.template.Metadata.Annotations)
	annotated := settings
	over := readOverride(s.GetAnnotations())
	flavor := shape
	if class == nil {
		class = &v1alpha1.ClassNodeTemplate{}
	}
	overShape(class, &shape)
	overCapacity(class.Capacity, &shape, &settings)
	overCapacity(over.capacity, &shape, &settings)
	refuted := slices.Concat(settings.Ignored, over.ignored, over.within(flavor, &shape))
	left, err := allocatable(shape, settings, kernelMemory)
	if err != nil {
		return resolved{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "metadata.annotations or spec.template.metadata.annotations: %v", err)
	}
	given := slices.AppendSeq(slices.Collect(maps.Keys(class.Capacity)), maps.Keys(over.capacity))
	out := resolved{given: given, flavor: capacity(flavor, settings.MaxPods), refuted: refuted, settings: annotated, NodeTemplate: &v1alpha1.NodeTemplate{
		Capacity:    arriving(capacity(shape, settings.MaxPods), given),
		Allocatable: left,
		Labels:      labels(s, shape),
		Taints:      r.taints(s.template.Spec.Taints),
	}}
	if shape.Architecture == "" && over.labels[corev1.LabelArchStable] == "" {
		out.guessed = archLabels
		set(out.Labels, "amd64", archLabels...)
	}
	addGPUs(out.NodeTemplate, r.GPUResource, shape.GPUs)
	beyond(class, out.NodeTemplate)
	over.extend(out.NodeTemplate)
	if kind, labelled := out.Labels[r.GPULabel]; labelled && r.GPULabel != "" && v1alpha1.HasResource(out.Allocatable, v1alpha1.IsKnownGPU) {
		out.Labels[v1alpha1.LabelGPU] = kind
	}
	for _, key := range v1alpha1.WithheldNodeLabels(r.AllowedNodeLabels, out.Labels) {
		delete(out.Labels, key)
	}
	if out.ResolvedFor, err = hashOf(s.template); err != nil {
		return resolved{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "spec.template: %v", err)
	}
	out.lesson, err = lesson(s.template, shape, settings)
	return out, err
}

// archLabels are the labels of the architecture.
var archLabels = []string{corev1.LabelArchStable, "beta.kubernetes.io/arch"}

// labels returns the labels of the template, overridden by the labels that the kubelet, the cloud-controller-manager and the CSI driver
// put on every node. It lacks the label of the host name, which differs between nodes.
func labels(s *subject, shape cloud.Shape) map[string]string {
	out := bootstrap.NodeLabels(&s.template.Spec, s.template.Metadata.Labels, s.selector)
	out[v1alpha1.LabelManaged] = "true"
	set(out, "linux", corev1.LabelOSStable, "beta.kubernetes.io/os")
	set(out, shape.Architecture, archLabels...)
	set(out, shape.Flavor, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType)
	set(out, shape.Zone, append([]string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}, shape.ZoneLabels...)...)
	set(out, shape.Region, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion)
	return out
}

// set sets some labels to a value. A value that is not valid for a label is skipped, because nodes do not have it either.
func set(labels map[string]string, value string, keys ...string) {
	if value == "" || len(validation.IsValidLabelValue(value)) > 0 {
		return
	}
	for _, key := range keys {
		labels[key] = value
	}
}

// passing lists the taints that Kubernetes removes from a node before the node takes pods.
var passing = []string{
	v1alpha1.TaintUninitialized,
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeNetworkUnavailable,
}

// taints returns the taints of a template that its nodes keep.
func (r Rules) taints(of []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range of {
		if t.Key == r.StartupTaint || slices.Contains(passing, t.Key) || slices.Contains(r.OtherStartupTaints, t.Key) || v1alpha1.IsStartupTaint(t.Key) {
			continue
		}
		t.TimeAdded = nil
		out = withTaints(out, []corev1.Taint{t})
	}
	return out
}

// addGPUs adds GPUs to a template.
func addGPUs(t *v1alpha1.NodeTemplate, name corev1.ResourceName, n int64) {
	if n > 0 {
		gpus := *resource.NewQuantity(n, resource.DecimalSI)
		t.Capacity[name], t.Allocatable[name] = gpus, gpus
	}
}
