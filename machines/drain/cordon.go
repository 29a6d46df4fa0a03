package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Cordon keeps new pods and new connections off a node. In one patch it makes the node unschedulable, taints it, excludes it from
// external load balancers and removes [v1alpha1.LabelGPU], because the node may lose its GPUs when their pods are evicted. Every few minutes it records in the taint how long the drain has lasted (see [Lasted]). It writes only what is
// missing. It returns the node as stored, and a Conflict when another client has changed the node since it was read.
func Cordon(ctx context.Context, c client.Client, node *corev1.Node, now time.Time) (*corev1.Node, error) {
	taint := record(node, now)
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	_, gpus := node.Labels[v1alpha1.LabelGPU]
	if node.Spec.Unschedulable && excluded && taint == nil && !gpus {
		return node, nil
	}
	return change(ctx, c, node, "cordoning node %s: %w", func(node *corev1.Node) {
		node.Spec.Unschedulable = true
		switch stored := taintOf(node, &deleting); {
		case taint == nil:
		case stored == nil:
			node.Spec.Taints = append(node.Spec.Taints, *taint)
		default:
			*stored = *taint
		}
		delete(node.Labels, v1alpha1.LabelGPU)
		if !excluded {
			metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelNodeExcludeBalancers, "")
		}
	})
}

// change writes a change of a node, and returns the node as stored. failed is the format of the error; its arguments are the name of the
// node and the cause.
func change(ctx context.Context, c client.Client, node *corev1.Node, failed string, apply func(*corev1.Node)) (*corev1.Node, error) {
	changed := node.DeepCopy()
	apply(changed)
	// The patch replaces the whole list of taints, so the API server must refuse it when the list has changed.
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return changed, fmt.Errorf(failed, node.Name, err)
	}
	return changed, nil
}

// fieldOwner is the field manager of the Machine controller, which drains nodes.
const fieldOwner = client.FieldOwner("drover-machine")

// The taints of a Node whose Machine is being deleted, and of a Node whose server is gone or shut down permanently.
var (
	deleting     = corev1.Taint{Key: v1alpha1.TaintDeleting, Effect: corev1.TaintEffectNoSchedule}
	outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
)

// IsOutOfService reports whether the Node has the out-of-service taint.
func IsOutOfService(node *corev1.Node) bool { return taintOf(node, &outOfService) != nil }

// OutOfService taints a node on which nothing runs any more as out of service. Kubernetes then deletes the node's terminating pods and
// detaches volumes without waiting for the kubelet. Call it only when the node's server is gone or shut down permanently. It returns the
// node as stored. It is not an error if the node does not exist any more.
func OutOfService(ctx context.Context, c client.Client, node *corev1.Node) (*corev1.Node, error) {
	if IsOutOfService(node) {
		return node, nil
	}
	node, err := change(ctx, c, node, "marking node %s out of service: %w", func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, outOfService)
	})
	return node, client.IgnoreNotFound(err)
}

// InService removes the out-of-service taint from a node whose server runs again. It returns the node as stored. It is not an error if
// the node does not exist any more.
func InService(ctx context.Context, c client.Client, node *corev1.Node) (*corev1.Node, error) {
	node, err := change(ctx, c, node, "taking node %s back into service: %w", func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&outOfService) })
	})
	return node, client.IgnoreNotFound(err)
}

const (
	// LastGrace is the longest time for which a drain that has reached its timeout still waits for pods that it has evicted to use their grace
	// periods.
	LastGrace = time.Hour
	// mostAway limits how long a time without a round counts as time of the drain. A round follows the one before within half a minute,
	// unless drover cannot act: the Machine is paused, its deletion is withheld, no process leads, or the API server does not answer.
	mostAway = 5 * time.Minute
	// recordEvery is the time after which the time of a drain is recorded again. It is shorter than mostAway, so that no time is lost.
	recordEvery = 4 * time.Minute
)

// Begun reports whether drover has cordoned the node, with which a drain begins.
func Begun(node *corev1.Node) bool { return taintOf(node, &deleting) != nil }

// Lasted returns how long the drain of a node has lasted, without the times in which drover could not act; 0 before the node is
// cordoned. The taint that cordons the node holds the time until its last record (the value), and the time of that record (timeAdded).
// So the time survives a restart, and neither a wrong clock nor an absence adds more than five minutes to it.
func Lasted(node *corev1.Node, now time.Time) time.Duration {
	taint := taintOf(node, &deleting)
	if taint == nil || taint.TimeAdded == nil {
		return 0
	}
	// If the value is missing or is not a duration, no time has been recorded yet.
	before, _ := time.ParseDuration(taint.Value)
	return max(before, 0) + min(max(now.Sub(taint.TimeAdded.Time), 0), mostAway)
}

// TimedOut reports whether the time of a drain is over ([Mode.Final]), and whether the time for the last grace periods is over too
// ([Mode.Over]).
func TimedOut(node *corev1.Node, timeout time.Duration, now time.Time) (final, over bool) {
	lasted := Lasted(node, now)
	return lasted >= timeout, lasted >= timeout+LastGrace
}

// record returns the taint that cordons the node, with the time of the drain; nil while the recorded time is recent enough.
func record(node *corev1.Node, now time.Time) *corev1.Taint {
	taint := deleting
	taint.TimeAdded = &metav1.Time{Time: now.Truncate(time.Second)}
	stored := taintOf(node, &deleting)
	if stored == nil {
		return &taint
	}
	if stored.TimeAdded != nil && now.Sub(stored.TimeAdded.Time).Abs() < recordEvery {
		return nil
	}
	if lasted := Lasted(node, now).Truncate(time.Second); lasted > 0 {
		taint.Value = lasted.String()
	}
	return &taint
}

// taintOf returns the taint of the Node with the key and effect of taint, with any value; nil when it has none.
func taintOf(node *corev1.Node, taint *corev1.Taint) *corev1.Taint {
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(taint) })
	if i < 0 {
		return nil
	}
	return &node.Spec.Taints[i]
}
