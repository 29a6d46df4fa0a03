package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// act deletes orphans, and sets or removes the taint machineGone and the annotation unmanaged of Nodes. It stops as soon as another process
// may be the leader, or as the snapshot may be out of date. A deletion that is refused does not count, so that it does not delay others.
func (c *Collector) act(ctx context.Context, v *verdict.Verdict) {
	may := func() bool { return ctx.Err() == nil && c.stale() == "" }
	accepted := 0
	for i := 0; i < len(v.Orphans) && may(); i++ {
		o := &v.Orphans[i]
		if (o.Expel || o.Delete && accepted < c.MaxPerPass) && c.collect(ctx, o) {
			accepted++
		}
	}
	for i := 0; i < len(v.Marks) && may(); i++ {
		c.mark(ctx, v.Marks[i])
	}
}

// collect deletes one orphan, begins the drain of its Node, or puts the taint machineGone on it. It reports whether a deletion
// was accepted, or would have been sent outside of observe mode.
func (c *Collector) collect(ctx context.Context, o *verdict.Orphan) bool {
	kind, reason, text := corev1.EventTypeNormal, "OrphanDeleted", verdict.BeingDeleted
	var err error
	switch {
	case o.Expel:
		kind, reason, text, err = corev1.EventTypeWarning, "NodeOutlivesMachine", o.Why, c.expel(ctx, o)
	case o.Kind == verdict.KindNode:
		err = c.deleteNode(ctx, o)
	case o.Node != nil && (len(c.draining) >= c.MaxPerPass || !c.drained(ctx, o)):
		return false
	default:
		err = c.Cloud.Collect(ctx, o.Resource)
	}
	switch {
	case apierrors.IsNotFound(err):
		return o.Delete // somebody else has deleted it
	case o.Expel && (errors.Is(err, errChanged) || errors.Is(err, errNotProven)):
		return false // the next round judges the Node again
	case err != nil:
		kind, reason, text = corev1.EventTypeWarning, "OrphanNotDeleted", err.Error()
	case o.Delete && !c.Observed:
		c.metrics.collected.WithLabelValues(label(o.Kind)).Inc()
	}
	c.record(ctx, o, kind, reason, text)
	return o.Delete && (err == nil || c.Observed)
}

// deleteNode deletes a Node whose Machine does not exist and whose server is proven to be gone.
func (c *Collector) deleteNode(ctx context.Context, o *verdict.Orphan) error {
	node, err := c.proven(ctx, o)
	if err != nil {
		return err
	}
	return c.Target.GetClient().Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion})
}

// machineGone is the taint of a Node that reports although its Machine and its server are gone. It evicts the Node's pods. A kubelet
// cannot remove it, because NodeRestriction forbids kubelets to change the taints of their Nodes.
var machineGone = corev1.Taint{Key: v1alpha1.TaintMachineGone, Effect: corev1.TaintEffectNoExecute}

// expel puts the taint machineGone on a Node that outlives its Machine, unless the informer cache shows a Machine for the Node's name now.
func (c *Collector) expel(ctx context.Context, o *verdict.Orphan) error {
	machines, err := c.listMachines(ctx, c.Control.GetClient(), 0)
	if err == nil && slices.ContainsFunc(machines, func(m verdict.Machine) bool { return m.ServerName == o.ID }) {
		err = errChanged
	}
	if err != nil {
		return err
	}
	node, err := c.proven(ctx, o)
	if err != nil {
		return err
	}
	base := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, machineGone)
	// The patch replaces the whole list of taints, so the API server must refuse it when the list has changed.
	return c.Target.GetClient().Patch(ctx, node, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), client.FieldOwner(name))
}

// errChanged and errNotProven are the errors with which a Node is left for the next round.
var (
	errChanged   = errors.New("the Node, or its Machine, has changed since the decision")
	errNotProven = errors.New("nothing proves that it is gone")
)

// readNode reads a Node from the API server. It returns an error when the Node differs from judged, the state on which the decision was
// based.
func (c *Collector) readNode(ctx context.Context, judged *verdict.Node) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := c.Target.GetAPIReader().Get(ctx, client.ObjectKey{Name: judged.Name}, node); err != nil {
		return nil, err
	}
	if nodeOf(node, c.Cloud) != *judged {
		return nil, errChanged
	}
	return node, nil
}

// proven reads an orphaned Node from the API server. It returns an error unless the Node is as judged, and the cloud proves that the server
// of the Node does not exist. The name of a Node that outlives its Machine may be proof enough.
func (c *Collector) proven(ctx context.Context, o *verdict.Orphan) (*corev1.Node, error) {
	node, err := c.readNode(ctx, o.Node)
	if err != nil || o.Expel && o.End.UID == "" {
		return node, err
	}
	gone, err := c.Cloud.IsServerGone(ctx, node.Spec.ProviderID, o.End.Place)
	if err == nil && !gone {
		err = errNotProven
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the server %s of the Node: %w", node.Spec.ProviderID, err)
	}
	return node, nil
}

// mark adds the annotation unmanaged to a Node that was never drover's, or removes it from a Node that has a Machine now.
func (c *Collector) mark(ctx context.Context, judged *verdict.Node) {
	var value any
	if !judged.Unmanaged {
		value = "true"
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: judged.Name}}
	err := ownership.Writer{Client: c.Target.GetClient(), FieldManager: name}.Merge(ctx, node, map[string]any{
		"metadata": map[string]any{"uid": judged.UID, "annotations": map[string]any{v1alpha1.AnnotationUnmanaged: value}},
	})
	if client.IgnoreNotFound(err) != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Setting or removing the annotation of an unmanaged Node failed", "node", klog.KRef("", judged.Name))
	}
}
