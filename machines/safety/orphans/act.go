package orphans

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// act deletes orphans, and sets or removes the annotation unmanaged of Nodes. It stops as soon as another process may be the
// leader, or as the snapshot may be out of date. A deletion that is refused does not count, so that it does not delay others.
func (c *Collector) act(ctx context.Context, v *verdict.Verdict) {
	accepted := 0
	for i := range v.Orphans {
		if ctx.Err() != nil || c.stale() != "" {
			return
		}
		o := &v.Orphans[i]
		drains := o.Kind != verdict.KindNode && o.Node != nil
		switch {
		case o.Expel:
			c.expel(ctx, o)
		case o.Delete && accepted < c.MaxPerPass && (!drains || len(c.draining) < c.MaxPerPass):
			if c.delete(ctx, o, drains) {
				accepted++
			}
		}
	}
	c.markNodes(ctx, v.Marks)
}

// delete deletes one orphan, or begins or continues the drain of its Node. It reports whether the deletion was accepted.
func (c *Collector) delete(ctx context.Context, o *verdict.Orphan, drains bool) bool {
	var waiting string
	var err error
	switch {
	case o.Kind == verdict.KindNode:
		var gone bool
		if gone, err = c.deleteNode(ctx, o); gone {
			return false
		}
	case drains:
		waiting, err = c.drain(ctx, o)
	}
	if o.Kind != verdict.KindNode && waiting == "" && err == nil {
		err = c.Cloud.Collect(ctx, o.Resource)
	}
	switch {
	case err != nil:
		c.record(ctx, o, corev1.EventTypeWarning, "OrphanNotDeleted", err.Error())
		return false
	case waiting != "":
		c.draining = append(c.draining, &draining{o, waiting})
		c.record(ctx, o, corev1.EventTypeNormal, "OrphanDraining", waiting)
		return false
	}
	if !c.Observed {
		c.metrics.deleted(o.Kind)
	}
	c.record(ctx, o, corev1.EventTypeNormal, "OrphanDeleted", verdict.BeingDeleted)
	return true
}

var errChanged = errors.New("the Node has changed since the decision")

// deleteNode deletes a Node whose Machine does not exist, once a live read has shown that the Node is unchanged and its
// server is proven to be gone. gone reports whether there is no such Node any more.
func (c *Collector) deleteNode(ctx context.Context, o *verdict.Orphan) (gone bool, err error) {
	node, err := c.readNode(ctx, o.Node)
	if node == nil || err != nil {
		return err == nil, err
	}
	switch gone, err := c.Cloud.IsServerGone(ctx, node.Spec.ProviderID, o.End.Place); {
	case err != nil:
		return false, fmt.Errorf("looking for the server of the Node: %w", err)
	case !gone:
		return false, fmt.Errorf("nothing proves that its server %s is gone", node.Spec.ProviderID)
	}
	preconditions := client.Preconditions(metav1.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion})
	if err := c.Target.GetClient().Delete(ctx, node, preconditions); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting the Node: %w", err)
	}
	return false, nil
}

// readNode reads a Node from the API server; it returns nil when the Node is gone. It returns an error when the Node differs from
// judged, the state on which the decision was based.
func (c *Collector) readNode(ctx context.Context, judged *verdict.Node) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := c.Target.GetAPIReader().Get(ctx, client.ObjectKey{Name: judged.Name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if nodeOf(node, c.Cloud) != *judged {
		return nil, errChanged
	}
	return node, nil
}

// markNodes sets the annotation unmanaged on Nodes that were never drover's, and removes it from Nodes that have a Machine
// now.
func (c *Collector) markNodes(ctx context.Context, marks []verdict.NodeMark) {
	for _, mark := range marks {
		if ctx.Err() != nil || c.stale() != "" {
			return
		}
		var value any
		if mark.Set {
			value = "true"
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: mark.Node.Name}}
		err := ownership.Writer{Client: c.Target.GetClient(), FieldManager: fieldOwner}.Merge(ctx, node, map[string]any{"metadata": map[string]any{
			"uid": mark.Node.UID, "annotations": map[string]any{v1alpha1.AnnotationUnmanaged: value},
		}})
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Setting or removing the annotation of an unmanaged Node failed", "node", klog.KRef("", mark.Node.Name))
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Changed the annotation of an unmanaged Node", "node", klog.KRef("", mark.Node.Name), "unmanaged", mark.Set)
	}
}
