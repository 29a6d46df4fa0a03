package steps

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/scope"
)

// NodeTemplate computes the labels, annotations and taints that Nodes must have.
type NodeTemplate struct {
	Provider  cloud.Provider
	Bootstrap *bootstrap.Source
	// OtherStartupTaints are keys of start-up taints that other programs remove.
	OtherStartupTaints []string
	// AllowedLabels are the keys of reserved labels (see [v1alpha1.IsReservedNodeLabel]) that Nodes may get from their Machines.
	AllowedLabels []string
	// HostLabel reports whether Nodes get the label of the physical host.
	HostLabel bool
	// GPULabel is the key of the label that holds the type of a Node's GPUs; empty when there is none. GPUResource is the name under which
	// Nodes report GPUs, in addition to the usual names.
	GPULabel    string
	GPUResource corev1.ResourceName
}

// wanted returns the labels, annotations and taints that the Machine's Node must have. It leaves out start-up taints of other
// programs: the kubelet registers with such a taint, and the other program removes it. It also leaves out reserved labels that are not allowed.
func (k *NodeTemplate) wanted(ctx context.Context, s *scope.Scope) (v1alpha1.NodeMarks, error) {
	labels, err := k.Bootstrap.NodeLabels(ctx, s.Machine)
	if err != nil {
		return v1alpha1.NodeMarks{}, err
	}
	for _, key := range v1alpha1.WithheldNodeLabels(k.AllowedLabels, labels) {
		delete(labels, key)
	}
	w := nodes.Wanted(s.Machine, labels, k.hostOf(s))
	for _, t := range s.Machine.Spec.Taints {
		if slices.Contains(k.OtherStartupTaints, t.Key) || v1alpha1.IsStartupTaint(t.Key) {
			delete(w.Taints, nodes.TaintKey(t))
		}
	}
	if node := s.Observed.Node; node != nil {
		nodes.MarkGPUs(w, node, k.GPULabel, k.GPUResource)
	}
	return w, nil
}

// hostOf returns the ID of the physical host as the cloud reports it now, or otherwise as the status records it. It returns an empty
// string when Nodes do not get it as a label.
func (k *NodeTemplate) hostOf(s *scope.Scope) string {
	if !k.HostLabel {
		return ""
	}
	if server := s.Observed.Cloud.Server; server != nil && server.HostID != "" {
		return server.HostID
	}
	return k.Provider.Remembered(s.Machine).HostID
}
