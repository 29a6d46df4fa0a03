package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// labelCinderZone is what Cinder's CSI driver puts on a node, so that volumes find their zone.
const labelCinderZone = "topology.cinder.csi.openstack.org/zone"

// Template is the node that a new Machine of the deployment becomes on a server of this shape, once it takes pods: with
// the labels and taints that last, without those that go before (the startup taint, and those of the cloud controller
// and of the node's life). Annotations of the deployment lie over what the flavor says.
//
// Errors: Invalid, when the template's kubelet annotations or the deployment's capacity annotations cannot be read.
func Template(d *v1alpha1.MachineDeployment, shape cloud.Shape, startupTaint string) (*v1alpha1.NodeTemplate, error) {
	template := &d.Spec.Template
	settings, err := bootstrap.ParseKubeletSettings(template.Metadata.Annotations)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "spec.template.metadata.annotations: %v", err)
	}
	over, err := readOverride(d)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "metadata.annotations: %v", err)
	}
	over.apply(&shape, &settings)
	left, err := allocatable(shape, settings)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "spec.template.metadata.annotations: %v", err)
	}
	out := &v1alpha1.NodeTemplate{
		Capacity:    capacity(shape, settings.MaxPods),
		Allocatable: left,
		Labels:      labels(d, shape),
		Taints:      taints(template.Spec.Taints, startupTaint),
	}
	over.extend(out)
	return out, nil
}

// labels are those that the template gives, and over them those that kubelet, cloud controller and CSI driver put on
// every node. The host name differs from node to node and is left to whoever shows the template.
func labels(d *v1alpha1.MachineDeployment, shape cloud.Shape) map[string]string {
	template := &d.Spec.Template
	out := bootstrap.NodeLabels(template.Spec.Metadata.Labels, template.Metadata.Labels, &d.Spec.Selector)
	arch := shape.Architecture
	if arch == "" {
		arch = "amd64"
	}
	for value, keys := range map[string][]string{
		"linux":      {corev1.LabelOSStable, "beta.kubernetes.io/os"},
		arch:         {corev1.LabelArchStable, "beta.kubernetes.io/arch"},
		shape.Flavor: {corev1.LabelInstanceTypeStable, corev1.LabelInstanceType},
	} {
		set(out, value, keys...)
	}
	set(out, shape.Zone, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, labelCinderZone)
	set(out, shape.Region, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion)
	return out
}

// set puts a value on some labels; what cannot be a label's value is on no node either.
func set(labels map[string]string, value string, keys ...string) {
	if value == "" || len(validation.IsValidLabelValue(value)) > 0 {
		return
	}
	for _, key := range keys {
		labels[key] = value
	}
}

// passing are taints that a node loses before it takes pods.
var passing = []string{
	"node.cloudprovider.kubernetes.io/uninitialized",
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeNetworkUnavailable,
}

func taints(of []corev1.Taint, startup string) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range of {
		if t.Key == startup || slices.Contains(passing, t.Key) {
			continue
		}
		t.TimeAdded = nil
		out = append(out, t)
	}
	return out
}
