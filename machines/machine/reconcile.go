package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/steps"
)

// retryLease is the interval at which the lease is checked again. The lease is renewed every few seconds.
const retryLease = time.Second

// retryReach is the interval at which a Machine is reconciled while it waits for an unreachable API server.
const retryReach = 5 * time.Second

// maxSteps bounds the steps of a reconcile. No Machine takes more steps than this between two waits.
const maxSteps = 16

// action takes a step. It returns true when the lifecycle table is to be consulted again.
type action func(ctx context.Context, s *scope.Scope) (bool, error)

// newActions returns the action of each step except Rest and Wait, because these two only end a reconcile.
func (r *Reconciler) newActions(decisions *prometheus.CounterVec) map[lifecycle.Step]action {
	o := &r.options
	template := &steps.NodeTemplate{NodeOptions: o.Nodes, Provider: o.Cloud, Bootstrap: o.Bootstrap}
	creation := &steps.Creation{Bootstrap: o.Bootstrap, Retries: r.retries, Template: template}
	join := &steps.Join{Machines: o.Control.GetClient(), Provider: o.Cloud, Bootstrap: o.Bootstrap, Retries: r.retries}
	node := &steps.NodeSync{Nodes: o.Target.GetClient(), Pods: o.Target.GetAPIReader(), Template: template}
	power := &steps.Power{Decisions: decisions, Refrain: r.observer.refrainNow}
	deletion := &steps.Deletion{Nodes: o.Target.GetClient(), Drains: r.drains, Tokens: o.Bootstrap.Tokens, Retries: r.retries, Power: power, Provider: o.Cloud}
	return map[lifecycle.Step]action{
		lifecycle.Fail: r.fail,

		lifecycle.AddFinalizers: creation.AddFinalizers,
		lifecycle.RecordPlace:   creation.RecordPlace,
		lifecycle.MakeUserData:  creation.MakeUserData,
		lifecycle.Reserve:       creation.Reserve,
		lifecycle.Prepare:       creation.Prepare,
		lifecycle.EnsureServer:  creation.EnsureServer,
		lifecycle.ReplaceServer: creation.ReplaceServer,
		lifecycle.RecordServer:  creation.RecordServer,

		lifecycle.AwaitNode:  join.AwaitNode,
		lifecycle.GiveUp:     join.GiveUp,
		lifecycle.JoinNode:   join.JoinNode,
		lifecycle.LoseServer: join.LoseServer,

		lifecycle.SyncNode: node.Sync,

		lifecycle.StartServer: power.StartServer,
		lifecycle.EndStart:    power.EndStart,

		lifecycle.Hold:             deletion.Hold,
		lifecycle.ShutOffNode:      deletion.ShutOffNode,
		lifecycle.ReturnNode:       deletion.ReturnNode,
		lifecycle.DrainNode:        deletion.DrainNode,
		lifecycle.AwaitDetach:      deletion.AwaitDetach,
		lifecycle.AwaitRetry:       r.retries.AwaitRetry,
		lifecycle.DeleteServer:     deletion.DeleteServer,
		lifecycle.Release:          deletion.Release,
		lifecycle.OutOfService:     deletion.TakeOutOfService,
		lifecycle.DeleteNode:       deletion.DeleteNode,
		lifecycle.DeleteToken:      deletion.DeleteToken,
		lifecycle.LetGo:            deletion.LetGo,
		lifecycle.RemoveFinalizers: deletion.RemoveFinalizers,
	}
}

// reconcile observes the Machine, takes steps, and writes the Machine once at the end. [scope.Ahead] lists the writes that
// must come earlier.
func (r *Reconciler) reconcile(ctx context.Context, s *scope.Scope) error {
	if r.leaseOld() {
		standBack(ctx, s)
		return nil
	}
	if err := s.PutBack(ctx); err != nil {
		return err
	}
	if err := r.observer.observe(ctx, s); err != nil {
		if errors.Is(err, errCacheOld) {
			return err
		}
		return errors.Join(err, s.FinishUnread(ctx, unfinished("reading the facts of this Machine failed", err)))
	}
	err := r.takeSteps(ctx, s)
	if s.Gone {
		return err
	}
	if s.Last.Reason == lifecycle.ReasonLeaseOld || r.leaseOld() {
		standBack(ctx, s)
		return err
	}
	return r.finish(ctx, s, err)
}

// finish sets when the Machine is reconciled again, and writes it. err is the error of the step that failed; nil when none did.
func (r *Reconciler) finish(ctx context.Context, s *scope.Scope, err error) error {
	if s.Last.Reason == lifecycle.ReasonNodeMissing {
		err = errors.Join(err, r.observer.missingNode(ctx, s))
	}
	r.retries.ServerWorks(ctx, s)
	r.retries.StillRefused(s)
	if step := s.Last.Step; (step == lifecycle.Wait || step == lifecycle.Rest) && !r.retries.Wait(s) {
		requeue(s)
	}
	if s.WaitsForTurn && s.Observed.CloudErr != nil {
		// The call that reads the facts from the cloud still waits for its turn, so nothing new is known. A failure that is shown stays.
		if s.Failure != nil {
			return err
		}
		return errors.Join(err, s.FinishUnread(ctx, s.Observed.CloudErr.Message))
	}
	if err != nil {
		s.Unfinished = unfinished("drover could not finish what it was doing", err)
	}
	// The results of the steps before the error are written nevertheless, and the failed step is repeated.
	return errors.Join(err, s.Finish(ctx))
}

// unfinished returns a text about an error with which a reconcile ended.
func unfinished(what string, err error) string { return fault.Repeated(what + ": " + err.Error()) }

// takeSteps takes steps until a step must wait.
func (r *Reconciler) takeSteps(ctx context.Context, s *scope.Scope) error {
	for range maxSteps {
		s.Policy.LeaseOld = r.leaseOld()
		s.Policy.Stale, _ = r.options.Reach.Stale()
		s.Last = lifecycle.Next(s.Facts())
		act, ok := r.actions[s.Last.Step]
		if !ok {
			return nil
		}
		again, err := act(ctx, s)
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("reconciling Machine %s: no end after %d steps, the last being %s", s.Machine.Name, maxSteps, s.Last.Step)
}

// fail ends a reconcile in which the facts could not be read from the cloud. It records the failure and when to try again.
func (r *Reconciler) fail(ctx context.Context, s *scope.Scope) (bool, error) {
	r.retries.Unreadable(ctx, s)
	return false, nil
}

// polls are the intervals at which a Machine is reconciled again while it waits for something that no back-off and no watched event ends.
var polls = map[string]time.Duration{
	lifecycle.ReasonNotSynced:      time.Second,
	lifecycle.ReasonServerUnknown:  scope.PollCloud,
	lifecycle.ReasonServerDeleting: scope.PollCloud,
	lifecycle.ReasonHeld:           time.Minute,
	lifecycle.ReasonAPIUnreachable: retryReach,
	// An operator may allow the Machine to adopt the server, or the policies that protect this permission may come into force.
	lifecycle.ReasonForeign: scope.PollCloud,
}

// requeue sets when to reconcile again after a wait that is not a back-off.
func requeue(s *scope.Scope) {
	s.RequeueWithin(polls[s.Last.Reason])
	if s.Last.Reason == lifecycle.ReasonForeign {
		s.Failure = fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s; delete this Machine: drover does not change that server", s.Observed.Cloud.Foreign)
	}
}

func (r *Reconciler) leaseOld() bool {
	return r.options.Lease != nil && !r.options.Lease.Fresh(r.options.Clock.Now())
}

// standBack ends a reconcile when another process may hold the lease by now. It does not write the Machine: the new leader
// writes the status, and the two processes would overwrite each other's writes.
func standBack(ctx context.Context, s *scope.Scope) {
	s.RequeueWithin(retryLease)
	// Leader election logs the lost lease once; here it would be logged for each Machine once a second.
	ctrl.LoggerFrom(ctx).V(1).Info("The Machine is not reconciled: the lease was not renewed in time")
}
