package machine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// pass is one look at one Machine.
type pass struct {
	// m is worked on; base is what the API server has.
	m, base  *v1alpha1.Machine
	facts    facts
	instance cloud.Instance
	group    group
	timeouts timeouts
	// wrong says what of the Machine's annotations cannot be read.
	wrong    []string
	userData []byte
	// last is the step that ended the pass.
	last decision
	// failure is what went wrong with the cloud or the Machine's description; nil when nothing did.
	failure *fault.Error
	// detail is what people should know about the last step.
	detail string
	// blocked names the pods that a drain waits for because their eviction is refused; empty when there are none.
	blocked string
	// after is when to look again; 0: when something changes.
	after time.Duration
	// held is why the deletion is withheld, for people.
	held string
	// left is what the cloud may still hold of a Machine that is let go, leftReason why.
	left, leftReason string
	// awaited is what the Node lacks to complete its first start, one sentence each.
	awaited []string
	// unsynced: what belongs on the node could not be written; so nothing good is said of it yet.
	unsynced bool
	// inLine: the pass ended at a call that waits for other calls of drover's own. That is no failure.
	inLine bool
	// remember: a successor must know that the pass came this far, so that it is written at once.
	remember bool
	// gone: the Machine was deleted or let go in this pass; there is nothing left to write to.
	gone bool
}

// action takes a step. It returns true when the table is to be asked again.
type action func(r *Reconciler, ctx context.Context, p *pass) (bool, error)

// actions has every step but those that only end a pass (rest and wait).
var actions = map[step]action{
	addFinalizers:    (*Reconciler).addFinalizers,
	recordPlace:      (*Reconciler).recordPlace,
	fail:             (*Reconciler).fail,
	makeUserData:     (*Reconciler).makeUserData,
	ensurePorts:      (*Reconciler).ensurePorts,
	ensureFloatingIP: (*Reconciler).ensureFloatingIP,
	ensureServer:     (*Reconciler).ensureServer,
	replaceServer:    (*Reconciler).replaceServer,
	recordServer:     (*Reconciler).recordServer,
	awaitNode:        (*Reconciler).awaitNode,
	giveUp:           (*Reconciler).giveUp,
	joinNode:         (*Reconciler).joinNode,
	syncNode:         (*Reconciler).syncNode,
	loseServer:       (*Reconciler).loseServer,
	hold:             (*Reconciler).hold,
	drainNode:        (*Reconciler).drainNode,
	awaitDetach:      (*Reconciler).awaitDetach,
	deleteServer:     (*Reconciler).deleteServer,
	release:          (*Reconciler).release,
	outOfService:     (*Reconciler).takeOutOfService,
	deleteNode:       (*Reconciler).deleteNode,
	deleteToken:      (*Reconciler).deleteToken,
	letGo:            (*Reconciler).letGo,
	removeFinalizers: (*Reconciler).removeFinalizers,
}

// mostSteps bounds a pass: no life has more steps between two waits.
const mostSteps = 16

// walk takes steps until one must wait.
func (r *Reconciler) walk(ctx context.Context, p *pass) error {
	for range mostSteps {
		p.facts.leaseOld = r.leaseOld()
		p.last = next(&p.facts)
		act, ok := actions[p.last.step]
		if !ok {
			return nil
		}
		again, err := act(r, ctx, p)
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("walking through the life of Machine %s: no end after %d steps, the last being %s", p.m.Name, mostSteps, p.last.step)
}

// fails notes what went wrong and when to try again. A call that waits for other calls of drover's own was refused by
// nobody: the Machine is woken when its turn comes, and the time in the error is only in case that is missed.
func (r *Reconciler) fails(ctx context.Context, p *pass, err error) {
	cause := fault.Of(err)
	if cause.Code == fault.CodeWaitingForTurn {
		p.inLine = true
		p.detail = cmp.Or(p.detail, "other calls of drover to the cloud come first")
		p.soonest(max(cause.RetryAfter, fault.PolicyOf(cause.Class).Retry))
		return
	}
	p.failure = cause
	r.groups.Release(p.m.UID)
	p.after = r.retries.Failed(p.m.UID, p.failure, r.Clock.Now())
	r.logFailure(ctx, p)
}

func (r *Reconciler) logFailure(ctx context.Context, p *pass) {
	ctrl.LoggerFrom(ctx).Info("Step failed", "step", p.last.step, "class", p.failure.Class, "code", p.failure.Code,
		"message", p.failure.Message, "retryAfter", p.after.String())
}

// soonest keeps the earlier of two times to look again.
func (p *pass) soonest(after time.Duration) {
	if after > 0 && (p.after == 0 || after < p.after) {
		p.after = after
	}
}

// fail ends a pass in which the cloud could not be asked.
func (r *Reconciler) fail(ctx context.Context, p *pass) (bool, error) {
	r.fails(ctx, p, p.facts.cloudErr)
	return false, nil
}
