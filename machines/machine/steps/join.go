package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// Join waits for the Node of a server and records the Node in the Machine. It gives up a Machine whose server is lost or does
// not join.
type Join struct {
	// Machines deletes the Machines that are given up.
	Machines  client.Writer
	Provider  cloud.Provider
	Bootstrap *bootstrap.Source
	Retries   *Retries
}

// AwaitNode renews the join token while the server boots, and shows what the Machine waits for.
func (j *Join) AwaitNode(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Detail = s.Observed.Taken
	if s.Last.Reason == lifecycle.ReasonWaitingForNode {
		j.watchConsole(ctx, s)
		s.Detail = awaited(s)
	}
	// The token is checked twice within half of its life, so that it never expires between two checks.
	s.RequeueWithin(bootstrap.TokenLife / 4)
	if deadline := s.Policy.JoinDeadline; !deadline.IsZero() {
		s.RequeueWithin(deadline.Sub(s.Now()))
	}
	return false, j.Bootstrap.Tokens.Prolong(ctx, s.Machine)
}

// awaited describes the wait of a Machine without a Node: when it began, when it ends, where an operator can look for the
// cause, and the failure in the server's console if one was found there.
func awaited(s *scope.Scope) string {
	server, name := s.Observed.Cloud.Server, s.Machine.ServerName()
	until := "without a deadline"
	if deadline := s.Policy.JoinDeadline; !deadline.IsZero() {
		until = "until " + deadline.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("waiting for node %s to register; its server %s was made at %s, and drover waits %s; look at the console of the server and at the CertificateSigningRequests of system:node:%s",
		name, server.ID, server.Created.UTC().Format(time.RFC3339), until, name)
	if c := s.Machine.Condition(v1alpha1.ConditionConsole); c.Status == corev1.ConditionTrue && strings.HasPrefix(c.Message, consoleIntro(server)) {
		if line := failureIn(strings.TrimPrefix(c.Message, consoleIntro(server))); line != "" {
			text += "; the console shows: " + fault.Line(line)
		}
	}
	return text
}

// JoinNode records the Node in the Machine and deletes the Machine's token. It does so again for a Node that was deleted and
// has registered again.
func (j *Join) JoinNode(ctx context.Context, s *scope.Scope) (bool, error) {
	if !s.Observed.Joined {
		if err := j.Bootstrap.Tokens.Delete(ctx, s.Machine); err != nil {
			return false, err
		}
		if err := j.Retries.JoinEnded(ctx, s, true); err != nil {
			return false, err
		}
	}
	clearConsole(s)
	node := s.Observed.Node
	s.Machine.Status.NodeRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	if marks := s.Machine.Status.NodeMarks; marks != nil && s.Observed.Reregistered {
		marks.Started = false
	}
	s.ReadMachine()
	ctrl.LoggerFrom(ctx).Info("Node joined", "node", klog.KObj(node))
	return true, nil
}

// LoseServer acts when it is proven that the server was deleted in the cloud. It deletes a Machine of a set, and the set
// creates a new Machine (MC-66). A Machine without a set is kept and shows the loss.
func (j *Join) LoseServer(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Failure = fault.New(fault.NotFound, fault.CodeResourceNotFound, "server %s was deleted in the cloud", cloud.RecordedServer(j.Provider, s.Machine))
	return false, j.abandon(ctx, s)
}

// GiveUp ends the wait for a server that has not become a Node in time. It deletes the Machine, and the Machine's set creates
// another. A Machine without an owner is kept, in phase Failed, because no controller would create another (MC-57).
func (j *Join) GiveUp(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Failure = fault.New(fault.Invalid, fault.CodeJoinTimeout, "server %s has not become a node within %v", s.Observed.Cloud.Server.ID, s.Policy.Timeouts.Join)
	if j.keepConsole(ctx, s) {
		if err := j.Retries.JoinEnded(ctx, s, false); err != nil {
			return false, err
		}
	}
	return false, j.abandon(ctx, s)
}

// abandon deletes the Machine so that its set creates another. It does nothing if the Machine has no owner.
func (j *Join) abandon(ctx context.Context, s *scope.Scope) error {
	if !s.Observed.Owned {
		return nil
	}
	if ptr.Deref(s.Base.Status.ErrorMessage, "") != s.Failure.Message {
		s.ComputeStatus()
		if err := s.WriteAhead(ctx, scope.BeforeDeletingMachine); err != nil {
			return err
		}
	}
	uid, version := s.Machine.UID, s.Machine.ResourceVersion
	err := j.Machines.Delete(ctx, s.Machine, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Machine %s, which its set replaces: %w", s.Machine.Name, err)
	}
	s.Gone = true
	j.Retries.Groups.Forget(uid)
	ctrl.LoggerFrom(ctx).Info("Deleted the Machine, so that its set creates another", "reason", s.Last.Reason, "cause", s.Failure.Message)
	return nil
}
