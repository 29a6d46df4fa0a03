package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// unreachableAfter is how long a Node's kubelet must not have reported before the collector stops waiting for its pods.
const unreachableAfter = 5 * time.Minute

// drainPeriod is the time between two checks of a Node that is being drained.
const drainPeriod = 20 * time.Second

// draining is an orphaned server whose Node is being drained. waiting is what the drain waits for.
type draining struct {
	*verdict.Orphan
	waiting string
}

// goOnDraining continues the drains that were not finished in the last round: it requests the evictions that are due. It does not
// decide about orphans and deletes no server. The next round does both, after it has read everything again.
func (c *Collector) goOnDraining(ctx context.Context) {
	if ctx.Err() != nil || c.stale() != "" {
		return
	}
	c.draining = slices.DeleteFunc(c.draining, func(d *draining) bool { return !c.drainAgain(ctx, d) })
}

// drainAgain checks one Node, and reports whether the Node's drain continues before the next round. It ends when the server, or its
// Node, may have a Machine now.
func (c *Collector) drainAgain(ctx context.Context, d *draining) bool {
	var list v1alpha1.MachineList
	if err := c.Control.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return true
	}
	adopted := slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool {
		judged := machineOf(&m, c.Cloud)
		return d.MayBelongTo(&judged)
	})
	if adopted || !c.isLeft(ctx, d.Orphan) {
		return false
	}
	waiting, err := c.drain(ctx, d.Orphan)
	kind, reason := corev1.EventTypeNormal, "OrphanDraining"
	switch {
	case errors.Is(err, errChanged):
		return false
	case err != nil:
		kind, reason, waiting = corev1.EventTypeWarning, "OrphanNotDeleted", err.Error()
	case waiting == "":
		c.record(ctx, d.Orphan, kind, reason, "the drain of node "+d.Node.Name+" has ended: the next round deletes the server, if it has no Machine then")
		return false
	}
	if waiting != d.waiting {
		d.waiting = waiting
		c.record(ctx, d.Orphan, kind, reason, waiting)
	}
	return true
}

// isLeft reports whether the cloud's lists, which all Machines share, still show the server of an orphan, with the same owner
// tag. It ignores projects whose lists are incomplete.
func (c *Collector) isLeft(ctx context.Context, o *verdict.Orphan) bool {
	return slices.ContainsFunc(c.Cloud.Tagged(ctx), func(p cloud.Project) bool {
		return p.Unknown == "" && slices.Contains(p.Resources, o.Resource)
	})
}

// drain cordons the Node of a server and requests the evictions that are due. waiting describes what the drain waits for. It
// is empty when the server may be deleted, because its Node is drained or gone, or because the drain timeout is over. All pods
// that are left are then evicted first, and not waited for.
func (c *Collector) drain(ctx context.Context, o *verdict.Orphan) (waiting string, err error) {
	node := &corev1.Node{}
	err = c.Target.GetAPIReader().Get(ctx, client.ObjectKey{Name: o.Node.Name}, node)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading node %s: %w", o.Node.Name, err)
	case err != nil:
		return "", nil
	case !sameNode(nodeOf(node, c.Cloud), *o.Node):
		return "", errChanged
	}
	if _, skip := node.Annotations[v1alpha1.AnnotationSkipEviction]; skip || c.DrainTimeout <= 0 {
		return "", nil
	}
	if node, err = drain.Cordon(ctx, c.Target.GetClient(), node, c.Clock.Now()); err != nil {
		return "", err
	}
	ready := v1alpha1.NodeReady(node)
	abrupt := ready.Status == corev1.ConditionUnknown && c.Clock.Since(ready.LastTransitionTime.Time) > unreachableAfter
	over, _ := drain.TimedOut(node, c.DrainTimeout, c.Clock.Now())
	order := drain.Order{Node: node.Name, Mode: drain.Mode{Abrupt: abrupt, Final: over}, VolumeTimeout: c.VolumeTimeout}
	result, err := c.drainer.Round(ctx, order, c.Clock.Now())
	if over {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("draining node %s: %w", node.Name, err)
	}
	return waitingFor(node.Name, &result), nil
}

// sameNode reports whether a Node has not changed since the decision. A Node that was Ready may be not Ready now, but a Node
// that was not Ready must not be Ready now.
func sameNode(now, judged verdict.Node) bool {
	if now.Ready && !judged.Ready {
		return false
	}
	now.Ready, now.Changed = judged.Ready, judged.Changed
	return now == judged
}

// waitingFor returns what the drain of a Node waits for; empty when it waits for nothing.
func waitingFor(node string, r *drain.Result) string {
	if r.Done && len(r.Detaching) == 0 {
		return ""
	}
	text := "draining node " + node
	if len(r.Leaving) > 0 {
		text += "; pods are leaving it: " + strings.Join(r.Leaving, ", ")
	}
	for _, blocked := range r.Left() {
		text += fmt.Sprintf("; pod %s: %s", blocked.Pod, blocked.Reason)
	}
	if len(r.Detaching) > 0 {
		text += "; volumes to be detached: " + strings.Join(r.Detaching, ", ")
	}
	return text
}
