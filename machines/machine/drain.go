package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/drain"
)

// How soon a drain is looked at again: pods that are ending end soon; budgets take their time (MC-60, rulings).
const (
	retryEnding       = 2 * time.Second
	retryBlocked      = 10 * time.Second
	retryBlockedLong  = 30 * time.Second
	blockedLongAfter  = 5 * time.Minute
	mostBlockedListed = 5
)

// drainNode keeps new pods off the node and asks those on it to go. It does not wait for them.
func (r *Reconciler) drainNode(ctx context.Context, p *pass) (bool, error) {
	if err := drain.Cordon(ctx, r.Target.GetClient(), p.facts.node); err != nil {
		return false, err
	}
	result, err := r.drainer.Pass(ctx, p.facts.node.Name, drain.Mode{Unreachable: p.facts.unreachable})
	if err != nil {
		return false, err
	}
	if result.Done {
		p.facts.drained = true
		return true, nil
	}
	now := r.Clock.Now()
	p.detail = blockedText(result.Blocked)
	switch {
	case len(result.Blocked) == 0:
		p.soonest(retryEnding)
	case now.Sub(p.m.DeletionTimestamp.Time) < blockedLongAfter:
		p.soonest(retryBlocked)
	default:
		p.soonest(retryBlockedLong)
	}
	p.soonest(p.m.DeletionTimestamp.Add(r.DrainTimeout).Sub(now))
	return false, nil
}

// blockedText names what holds the drain up. It changes only when that changes, so that it is not written at each look.
func blockedText(blocked []drain.Blocked) string {
	if len(blocked) == 0 {
		return "pods are ending"
	}
	var parts []string
	for _, b := range blocked[:min(len(blocked), mostBlockedListed)] {
		parts = append(parts, fmt.Sprintf("%s: %s", b.Pod, b.Reason))
	}
	if more := len(blocked) - mostBlockedListed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return "evictions are refused: " + strings.Join(parts, "; ")
}
