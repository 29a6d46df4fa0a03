package steps

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/scope"
)

// Creation creates a Machine's server and the resources that it needs, and replaces a server that failed.
type Creation struct {
	Bootstrap *bootstrap.Source
	Retries   *Retries
	Template  *NodeTemplate
}

// AddFinalizers writes the finalizers before any resource is created, so that no resource can be forgotten (MC-39). If the
// project of the resources is known, the same write records it.
func (c *Creation) AddFinalizers(ctx context.Context, s *scope.Scope) (bool, error) {
	controllerutil.AddFinalizer(s.Machine, v1alpha1.FinalizerServer)
	controllerutil.AddFinalizer(s.Machine, v1alpha1.FinalizerNode)
	if !s.Observed.HadServer {
		cloud.RecordPlace(s.Machine, &s.Observed.Cloud)
	}
	if err := s.WriteAhead(ctx, scope.BeforeCreating); err != nil {
		return false, err
	}
	s.ReadMachine()
	return true, nil
}

// RecordPlace records the project of the Machine's resources, if it was not known when the finalizers were written, or if the
// credentials are now for another project. Nothing is created before this record.
func (c *Creation) RecordPlace(ctx context.Context, s *scope.Scope) (bool, error) {
	cloud.RecordPlace(s.Machine, &s.Observed.Cloud)
	s.ReadMachine()
	return true, s.WriteAhead(ctx, scope.BeforeCreating)
}

// MakeUserData creates the join token and the user data. If that is impossible (a kubelet outside the version skew, an
// unknown operating system), the Machine gets no server and shows why. A Machine that must wait for another program gets no
// server before that program has finished.
func (c *Creation) MakeUserData(ctx context.Context, s *scope.Scope) (bool, error) {
	var cause *fault.Error
	s.UserData, cause = UserData(ctx, c.Bootstrap, s)
	if cause != nil {
		c.Retries.Failed(ctx, s, cause)
		return false, nil
	}
	s.Progress.UserData = true
	return true, nil
}

// UserData checks the kubelet's version, and returns the user data of the Machine, or why there is none. Each error has a class, so that the
// Machine and the autoscaler show it (F-154).
func UserData(ctx context.Context, from *bootstrap.Source, s *scope.Scope) ([]byte, *fault.Error) {
	err := from.Check(ctx, s.Machine)
	if err == nil {
		var out []byte
		if out, err = from.UserData(ctx, s.Machine, s.Instance.Config()); err == nil {
			return out, nil
		}
	}
	var problem *bootstrap.Problem
	var waiting *bootstrap.Waiting
	switch {
	case errors.As(err, &problem):
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s", problem.Message)
	case errors.As(err, &waiting) && waiting.Forbidden:
		return nil, fault.New(fault.Auth, fault.CodeReferenceForbidden, "%s", waiting.Message)
	case errors.As(err, &waiting):
		return nil, fault.New(fault.Transient, fault.CodeBootstrapPending, "%s", waiting.Message)
	case apierrors.IsForbidden(err):
		return nil, fault.New(fault.Auth, fault.CodeForbidden, "%s", fault.Repeated(err.Error()))
	}
	// Every other error is that of a call to an API server.
	return nil, fault.New(fault.Transient, fault.CodeBootstrapPending, "%s", fault.Repeated(err.Error()))
}

// Reserve asks the cloud's driver whether it may create the server, and reserves quota for it.
func (c *Creation) Reserve(ctx context.Context, s *scope.Scope) (bool, error) {
	if err := s.Instance.Reserve(ctx); err != nil {
		s.Progress.Refused = fault.Of(err)
		c.Retries.FailedInCloud(ctx, s, err)
		return false, nil
	}
	s.Progress.Reserved = true
	return true, nil
}

// Prepare creates the resources that must exist before the server, such as its ports.
func (c *Creation) Prepare(ctx context.Context, s *scope.Scope) (bool, error) {
	if err := s.Instance.Prepare(ctx); err != nil {
		c.Retries.FailedInCloud(ctx, s, err)
		return false, nil
	}
	s.Progress.Prepared = true
	return true, nil
}

// EnsureServer creates the server, or finds the server that a previous leader created.
func (c *Creation) EnsureServer(ctx context.Context, s *scope.Scope) (bool, error) {
	server, err := s.Instance.EnsureServer(ctx, s.UserData)
	if err != nil {
		c.Retries.FailedInCloud(ctx, s, err)
		return false, nil
	}
	c.Retries.Groups.Ordered(s.Group.Holder, s.Machine.UID, s.Now())
	s.Observed.Cloud.Server = server
	ctrl.LoggerFrom(ctx).Info("Created server", "server", server.ID)
	return true, nil
}

// RecordServer records the server in the Machine; the write at the end of the reconcile stores the record. Until then only
// the server's owner tag links the server to the Machine. The same write records the labels, annotations and taints of the
// Node before the Node registers.
func (c *Creation) RecordServer(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Machine.Spec.ProviderID = ptr.To(s.Observed.Cloud.Server.ProviderID)
	s.ReadMachine()
	want, err := c.Template.wanted(ctx, s)
	if err != nil {
		return false, err
	}
	s.Machine.Status.NodeMarks = nodes.RecordAhead(nodes.RecordOf(s.Machine), want)
	return true, nil
}

// ReplaceServer shows why a server has failed, and deletes the server. Another server is created once the failed server is
// gone and the back-off has ended. spec.providerID is cleared and written before the deletion; otherwise a new leader would
// mistake drover's own deletion for the loss of a server.
func (c *Creation) ReplaceServer(ctx context.Context, s *scope.Scope) (bool, error) {
	server := s.Observed.Cloud.Server
	cause := server.Fault
	if cause == nil {
		cause = fault.New(fault.Unknown, fault.CodeServerError, "server %s is in %s; the cloud gave no reason", server.ID, server.Status)
	}
	c.Retries.ServerFailed(ctx, s, cause)
	s.Machine.Spec.ProviderID = nil
	s.ReadMachine()
	if s.Base.Spec.ProviderID != nil || ptr.Deref(s.Base.Status.ErrorMessage, "") != cause.Message {
		s.ComputeStatus()
		if err := s.WriteAhead(ctx, scope.BeforeReplacing); err != nil {
			return false, err
		}
	}
	s.RequeueWithin(scope.PollCloud)
	if err := s.Instance.DeleteFailed(ctx); err != nil {
		// The deletion is tried only once per back-off, so a failure causes few Events.
		cause := fault.Of(err)
		if cause.Class != fault.RateLimited {
			s.Warn(string(cause.Code), fault.Line(cause.Message))
		}
		s.Unfinished = "the failed server is not deleted yet: " + fault.Line(cause.Message)
		ctrl.LoggerFrom(ctx).Info("Deleting a failed server failed and is repeated", "server", server.ID, "cause", err.Error())
	}
	return false, nil
}
