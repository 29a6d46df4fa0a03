package orphans

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// machineGone is the taint of a Node that reports although its Machine and its server are gone. It evicts the Node's pods. A kubelet
// cannot remove it, because NodeRestriction forbids kubelets to change the taints of their Nodes.
var machineGone = corev1.Taint{Key: v1alpha1.TaintMachineGone, Effect: corev1.TaintEffectNoExecute}

// expel puts the taint machineGone on a Node that outlives its Machine, with a Warning.
func (c *Collector) expel(ctx context.Context, o *verdict.Orphan) {
	switch done, err := c.taint(ctx, o); {
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "Tainting a Node that outlives its Machine failed", "node", klog.KRef("", o.Node.Name))
	case done:
		c.record(ctx, o, corev1.EventTypeWarning, "NodeOutlivesMachine", o.Why)
	}
}

// taint puts the taint machineGone on a Node. It returns false when the Node is gone, when the informer cache shows a Machine for the
// Node's name now, and when the decision depends on the server's absence and the cloud does not prove it.
func (c *Collector) taint(ctx context.Context, o *verdict.Orphan) (bool, error) {
	node, err := c.readNode(ctx, o.Node)
	if node == nil || err != nil {
		return false, err
	}
	var machines v1alpha1.MachineList
	if err := c.Control.GetClient().List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Machines: %w", err)
	}
	if slices.ContainsFunc(machines.Items, func(m v1alpha1.Machine) bool { return m.ServerName() == node.Name }) {
		return false, nil
	}
	if o.End.UID != "" {
		if gone, err := c.Cloud.IsServerGone(ctx, node.Spec.ProviderID, o.End.Place); err != nil || !gone {
			return false, err
		}
	}
	base := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, machineGone)
	// The patch replaces the whole list of taints, so the API server must refuse it when the list has changed.
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Target.GetClient().Patch(ctx, node, patch, client.FieldOwner(fieldOwner)); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
}
