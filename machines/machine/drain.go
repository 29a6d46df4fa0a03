package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/drain"
)

// How soon a drain is looked at again: pods that are ending end soon, and volumes follow; budgets take their time (MC-60,
// rulings).
const (
	retryEnding       = 2 * time.Second
	retryDetaching    = 5 * time.Second
	retryBlocked      = 10 * time.Second
	retryBlockedLong  = 30 * time.Second
	blockedLongAfter  = 5 * time.Minute
	mostBlockedListed = 5
)

// drainNode keeps new pods off the node and has those on it asked to go. It waits neither for them nor for the asking.
func (r *Reconciler) drainNode(ctx context.Context, p *pass) (bool, error) {
	f := &p.facts
	node, err := drain.Cordon(ctx, r.Target.GetClient(), f.node)
	if err != nil {
		return false, err
	}
	r.wroteNode(p, node)
	retry := r.retryDrain(p)
	result, known, err := r.crew.Look(ctx, drain.Errand{
		Machine: client.ObjectKeyFromObject(p.m), UID: p.m.UID, Every: retry,
		Order: drain.Order{Node: f.node.Name, Mode: drain.Mode{Abrupt: f.unreachable || f.force}, VolumeTimeout: p.timeouts.volumes},
	})
	if err != nil && len(result.Blocked) == 0 {
		return false, err
	}
	if err != nil {
		// The evictions that got no answer are repeated like those that were refused, at the same interval.
		ctrl.LoggerFrom(ctx).Error(err, "Evictions got no answer")
	}
	p.detail = "pods are asked to go"
	switch {
	case known:
		p.detail, p.blocked = drainText(result), blockedText(result.Blocked)
	case reasonOf(p.base, v1alpha1.ConditionDeleting) == reasonDraining:
		p.detail = messageOf(p.base, v1alpha1.ConditionDeleting)
	}
	if known && result.Done {
		f.drained = true
		f.attached = len(result.Detaching) > 0 && !f.unreachable && !f.force && p.timeouts.volumes > 0
		f.detachOver = f.attached && r.detachOver(p)
		return true, nil
	}
	p.soonest(retry)
	p.soonest(p.m.DeletionTimestamp.Add(p.timeouts.drain).Sub(r.Clock.Now()))
	return false, nil
}

// retryDrain is how soon to look again, from what the last look has found.
func (r *Reconciler) retryDrain(p *pass) time.Duration {
	blocked := strings.HasPrefix(messageOf(p.base, v1alpha1.ConditionDeleting), blockedPrefix)
	switch {
	case !blocked:
		return retryEnding
	case r.Clock.Now().Sub(p.m.DeletionTimestamp.Time) < blockedLongAfter:
		return retryBlocked
	}
	return retryBlockedLong
}

// awaitDetach waits until the volumes of the pods that have gone are detached: a server that is deleted under them takes
// its time to let them go (MC-61).
func (r *Reconciler) awaitDetach(_ context.Context, p *pass) (bool, error) {
	p.soonest(retryDetaching)
	return false, nil
}

// detachOver tells whether the volumes have had their time, which began with the last operation.
func (r *Reconciler) detachOver(p *pass) bool {
	last := p.base.Status.LastOperation
	if last == nil || ptr.Deref(last.Description, "") != reasonDetaching || last.LastUpdated == nil {
		return false
	}
	return !r.Clock.Now().Before(last.LastUpdated.Add(p.timeouts.volumes))
}

// The parts of the text of a drain.
const (
	blockedPrefix   = "evictions are refused: "
	detachingPrefix = "volumes are being detached: "
	detailSeparator = "; "
)

// drainText names what holds the drain up. It changes only when that changes, so that it is not written at each look.
func drainText(result drain.Result) string {
	var parts []string
	switch {
	case len(result.Blocked) > 0:
		parts = append(parts, blockedText(result.Blocked))
	case result.Remaining > 0:
		parts = append(parts, "pods are ending")
	}
	if len(result.Detaching) > 0 {
		parts = append(parts, detachingPrefix+strings.Join(result.Detaching[:min(len(result.Detaching), mostBlockedListed)], ", "))
	}
	return strings.Join(parts, detailSeparator)
}

// blockedText names the pods whose eviction is refused, with the words of the refusal; empty when there are none.
func blockedText(blocked []drain.Blocked) string {
	if len(blocked) == 0 {
		return ""
	}
	return blockedPrefix + listed(blocked)
}

// drainBlocked records one Event when evictions are refused for the first time, and again when other pods or other reasons
// hold the drain up: not at each retry. It is called once the condition that has the same text has been written.
func (r *Reconciler) drainBlocked(p *pass, before string) {
	if p.blocked == "" || before == p.blocked || strings.HasPrefix(before, p.blocked+detailSeparator+detachingPrefix) {
		return
	}
	r.warn(p.m, "DrainBlocked", fmt.Sprintf("node %s: %s", p.facts.node.Name, p.blocked))
}

func listed(blocked []drain.Blocked) string {
	var parts []string
	for _, b := range blocked[:min(len(blocked), mostBlockedListed)] {
		parts = append(parts, fmt.Sprintf("%s: %s", b.Pod, b.Reason))
	}
	if more := len(blocked) - mostBlockedListed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// drainCutOff says, once, that a drain was ended by its deadline and not by success (MCM-66).
func (r *Reconciler) drainCutOff(ctx context.Context, p *pass) {
	if !p.facts.timedOut || reasonOf(p.base, v1alpha1.ConditionDeleting) != reasonDraining {
		return
	}
	text := fmt.Sprintf("after %v the server goes with pods on it: %s", p.timeouts.drain, messageOf(p.base, v1alpha1.ConditionDeleting))
	p.remember = true
	r.warn(p.m, "DrainTimedOut", text)
	ctrl.LoggerFrom(ctx).Info("Drain cut off", "after", p.timeouts.drain.String(), "blocked", messageOf(p.base, v1alpha1.ConditionDeleting))
}

// takeOutOfService lets Kubernetes end the pods and detach the volumes of a node that nobody answers for any more, now
// that its server is proven gone, and waits for the volumes as long as they may take.
func (r *Reconciler) takeOutOfService(ctx context.Context, p *pass) (bool, error) {
	f := &p.facts
	node, err := drain.OutOfService(ctx, r.Target.GetClient(), f.node)
	if err != nil {
		return false, err
	}
	r.wroteNode(p, node)
	attached, err := r.crew.Drainer.Attached(ctx, f.node.Name)
	if err != nil {
		return false, err
	}
	if len(attached) > 0 && !r.detachOver(p) {
		p.last.reason = reasonDetaching
		p.detail = drainText(drain.Result{Detaching: attached})
		p.soonest(retryDetaching)
		return false, nil
	}
	f.outOfService = true
	return true, nil
}
