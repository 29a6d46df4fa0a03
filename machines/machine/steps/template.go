package steps

import (
	"context"
	"slices"

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
}

// wanted returns the labels, annotations and taints that the Machine's Node must have. It leaves out start-up taints of other
// programs: the kubelet registers with such a taint, and the other program removes it.
func (k *NodeTemplate) wanted(ctx context.Context, s *scope.Scope) (v1alpha1.NodeMarks, error) {
	labels, err := k.Bootstrap.NodeLabels(ctx, s.Machine)
	if err != nil {
		return v1alpha1.NodeMarks{}, err
	}
	w := nodes.Wanted(s.Machine, labels, k.hostOf(s))
	for _, t := range s.Machine.Spec.Taints {
		if slices.Contains(k.OtherStartupTaints, t.Key) {
			delete(w.Taints, nodes.TaintKey(t))
		}
	}
	return w, nil
}

// hostOf returns the ID of the physical host as the cloud reports it now, or otherwise as the status records it.
func (k *NodeTemplate) hostOf(s *scope.Scope) string {
	if server := s.Observed.Cloud.Server; server != nil && server.HostID != "" {
		return server.HostID
	}
	return k.Provider.Remembered(s.Machine).HostID
}
