package orphans

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// unreachableAfter is how long a Node's kubelet must not have reported before the collector stops waiting for its pods.
const unreachableAfter = 5 * time.Minute

// goOnDraining continues the drains that the last round could not finish, of the servers that would still be deleted by what the caches
// show: it requests the evictions that are due. It deletes no server: the next round does, after it has read everything again.
func (c *Collector) goOnDraining(ctx context.Context) {
	if len(c.draining) == 0 {
		return
	}
	v := verdict.Judge(c.gather(ctx, true))
	for i := range v.Orphans {
		if o := &v.Orphans[i]; o.Delete && o.Node != nil && c.draining[o.ID] != "" && c.drained(ctx, o) {
			c.record(ctx, o, corev1.EventTypeNormal, "OrphanDraining", "the drain of node "+o.Node.Name+" has ended: the next round deletes the server, if it has no Machine then")
		}
	}
}

// drained begins or continues the drain of the Node of an orphaned server. It reports whether the server may be deleted. A drain that cannot
// begin does not count as one.
func (c *Collector) drained(ctx context.Context, o *verdict.Orphan) bool {
	waiting, err := c.drain(ctx, o.Node)
	kind, reason := corev1.EventTypeNormal, "OrphanDraining"
	if err != nil {
		kind, reason, waiting = corev1.EventTypeWarning, "OrphanNotDeleted", err.Error()
	}
	if waiting == "" {
		delete(c.draining, o.ID)
		return true
	}
	if waiting != c.draining[o.ID] {
		c.record(ctx, o, kind, reason, waiting)
	}
	if err == nil || c.draining[o.ID] != "" {
		c.draining[o.ID] = waiting
	}
	return false
}

// drain cordons the Node of a server and requests the evictions that are due. waiting describes what the drain waits for. It
// is empty when the server may be deleted, because its Node is drained or gone, or because the drain timeout is over. All pods
// that are left are then evicted first, and not waited for.
func (c *Collector) drain(ctx context.Context, judged *verdict.Node) (waiting string, err error) {
	node, err := c.readNode(ctx, judged)
	if err != nil {
		return "", client.IgnoreNotFound(err)
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
	switch {
	case over || err == nil && result.Done && len(result.Detaching) == 0:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("draining node %s: %w", node.Name, err)
	}
	left := append(result.Leaving, result.Detaching...)
	for _, pod := range result.Left() {
		left = append(left, pod.Pod+": "+pod.Reason)
	}
	return fmt.Sprintf("the drain of node %s waits for pods that leave it and volumes that are detached: %s", node.Name, strings.Join(left, "; ")), nil
}
