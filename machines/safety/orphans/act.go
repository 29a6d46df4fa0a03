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
	"github.com/drover-project/drover/machines/patch"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// act deletes orphans, and sets or removes the annotation unmanaged of Nodes. It stops as soon as another process may be the
// leader, or as the snapshot may be out of date.
func (c *Collector) act(ctx context.Context, v *verdict.Verdict) {
	for i := range v.Orphans {
		o := &v.Orphans[i]
		if !o.Delete {
			continue
		}
		if ctx.Err() != nil || c.stale() != "" {
			return
		}
		waiting, err := c.delete(ctx, o)
		switch {
		case err != nil:
			c.say(ctx, o, corev1.EventTypeWarning, "OrphanNotDeleted", err.Error())
		case waiting != "":
			c.draining = append(c.draining, o)
			c.say(ctx, o, corev1.EventTypeNormal, "OrphanDraining", waiting)
		default:
			c.accepted(o)
			c.say(ctx, o, corev1.EventTypeNormal, "OrphanDeleted", verdict.BeingDeleted)
		}
	}
	c.expel(ctx, v.Orphans)
	c.markNodes(ctx, v.Marks)
}

// accepted counts each accepted deletion once. In observe mode it counts none.
func (c *Collector) accepted(o *verdict.Orphan) {
	if c.memory.Accepted(o, c.Clock.Now()) && !c.Observed {
		c.metrics.deleted(o.Kind)
	}
}

// delete deletes one orphan, or continues the drain of its Node. waiting describes what the deletion waits for; empty when
// the orphan was deleted.
func (c *Collector) delete(ctx context.Context, o *verdict.Orphan) (waiting string, err error) {
	if o.Kind == verdict.KindNode {
		return "", c.deleteNode(ctx, o)
	}
	if o.Node != nil {
		if waiting, err = c.drain(ctx, o); waiting != "" || err != nil {
			return waiting, err
		}
	}
	if c.stale() != "" {
		return "", errNotAlone
	}
	return "", c.Cloud.Collect(ctx, o.Resource)
}

var (
	errNotAlone = errors.New("another process may be the leader, or the data that drover has read may be out of date")
	errChanged  = errors.New("the Node has changed since the decision")
)

// deleteNode deletes a Node whose Machine does not exist, once a live read has shown that the Node is unchanged and its
// server is proven to be gone.
func (c *Collector) deleteNode(ctx context.Context, o *verdict.Orphan) error {
	node, err := c.readNode(ctx, o.Node)
	if node == nil || err != nil {
		return err
	}
	switch gone, err := c.Cloud.IsServerGone(ctx, node.Spec.ProviderID, o.Places()); {
	case err != nil:
		return fmt.Errorf("looking for the server of the Node: %w", err)
	case !gone:
		return fmt.Errorf("nothing proves that its server %s is gone", node.Spec.ProviderID)
	case c.stale() != "":
		return errNotAlone
	}
	preconditions := client.Preconditions(metav1.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion})
	if err := c.Target.GetClient().Delete(ctx, node, preconditions); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Node: %w", err)
	}
	return nil
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
	writer := patch.Writer{Client: c.Target.GetClient(), FieldManager: fieldOwner}
	for _, mark := range marks {
		if ctx.Err() != nil || c.stale() != "" {
			return
		}
		var value any
		if mark.Set {
			value = "true"
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: mark.Node.Name}}
		err := writer.Merge(ctx, node, map[string]any{"metadata": map[string]any{
			"uid": mark.Node.UID, "annotations": map[string]any{v1alpha1.AnnotationUnmanaged: value},
		}})
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Setting or removing the annotation of an unmanaged Node failed", "node", klog.KRef("", mark.Node.Name))
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Changed the annotation of an unmanaged Node", "node", klog.KRef("", mark.Node.Name), "unmanaged", mark.Set)
	}
}
