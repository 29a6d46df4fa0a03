package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// Power starts a server that was shut down. It tries only once, and records the failure when the server does not start.
type Power struct {
	// Decisions counts the decisions about servers that were shut down, by the reason of their Events.
	Decisions *prometheus.CounterVec
	// Refrain reads from the API server whether an operator does not want drover to start the server of a Machine.
	Refrain func(ctx context.Context, m *v1alpha1.Machine) (bool, error)
}

// NewDecisions returns the counter for [Power.Decisions], with all of its series.
func NewDecisions() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "drover_server_power_decisions_total",
		Help: "Decisions about servers that were shut down without drover: ServerStarted (drover has asked for the start), ServerWontStart (the start failed), NodeOutOfService (the Node was put out of service before its server was deleted).",
	}, []string{"decision"})
	for _, decision := range []string{lifecycle.ReasonServerStarted, lifecycle.ReasonServerWontStart, lifecycle.ReasonOutOfService} {
		c.WithLabelValues(decision)
	}
	return c
}

// StartServer records the start of the server and asks the cloud to start it, unless a live read shows that an operator does
// not want the start. It does not wait until the server runs.
func (p *Power) StartServer(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Progress.StartHandled = true
	refrain, err := p.Refrain(ctx, s.Machine)
	switch {
	case err != nil:
		return false, err
	case refrain:
		s.Policy.Start = lifecycle.StartRefrained
		return true, nil
	}
	server, unsent := s.Observed.Cloud.Server, s.StartUnsent()
	if !unsent {
		if err := p.record(ctx, s, server); err != nil {
			return false, err
		}
	}
	err = s.Instance.StartServer(ctx)
	cause := fault.Of(err)
	s.SetStartUnsent(notSent(cause))
	s.Policy.Start = lifecycle.StartPending
	if unsent && !notSent(cause) {
		s.Machine.Status.ServerStart = &v1alpha1.ServerStart{Server: server.ID, Time: startTime(s)}
	}
	switch {
	case err == nil:
		message := fmt.Sprintf("server %s was shut down, and drover has asked the cloud to start it", server.ID)
		p.decided(ctx, lifecycle.ReasonServerStarted, message)
		s.Warn(lifecycle.ReasonServerStarted, message)
	case notSent(cause):
		s.Policy.Start = lifecycle.StartDue
		s.WaitsForTurn = cause.Code == fault.CodeWaitingForTurn
		s.Unfinished = "the cloud has not been asked to start the server yet: " + fault.Line(cause.Message)
		s.RequeueWithin(max(cause.RetryAfter, fault.PolicyOf(cause.Class).Retry))
	case mayBeSent(cause):
		ctrl.LoggerFrom(ctx).Info("The cloud did not answer the request to start a server", "server", server.ID, "cause", err.Error())
	default:
		p.fail(ctx, s, fmt.Sprintf("server %s is shut down, and the cloud refused to start it: %s", server.ID, cause.Message))
	}
	return true, nil
}

// record writes the start of the server into the Machine. If this write fails, the write at the end of the reconcile stores
// the start; a start counts as not sent until drover has asked the cloud for it. record returns an error if the API server
// drops the start because the CRD of Machines is older than this version of drover. Without a stored start, drover would
// start the server again and again.
func (p *Power) record(ctx context.Context, s *scope.Scope, server *cloud.Server) error {
	s.Machine.Status.ServerStart = &v1alpha1.ServerStart{Server: server.ID, Time: startTime(s)}
	s.SetStartUnsent(true)
	s.Policy.Start = lifecycle.StartPending
	s.ComputeStatus()
	if err := s.WriteAhead(ctx, scope.BeforeStartingServer); err != nil {
		return err
	}
	if s.Machine.Status.ServerStart == nil {
		s.Policy.Start = lifecycle.StartNotNeeded
		return fmt.Errorf("recording the start of server %s: the API server has dropped status.serverStart; apply the CustomResourceDefinitions of this version of drover", server.ID)
	}
	return nil
}

// startTime returns the present time with the precision of the API server.
func startTime(s *scope.Scope) metav1.Time { return metav1.NewTime(s.Now().Truncate(time.Second)) }

// EndStart asks the cloud for the server when the start was requested longer than [lifecycle.StartTime] ago and the last list
// shows the server shut down. If the server is still shut down, the start has failed. If the cloud does not answer, it is
// asked again later.
func (p *Power) EndStart(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Progress.StartHandled = true
	if !lookNow(ctx, s) {
		s.RequeueWithin(scope.PollCloud)
		return true, nil
	}
	record, server := s.Machine.Status.ServerStart, s.Observed.Cloud.Server
	s.Policy.Start = lifecycle.JudgeStart(lifecycle.StartInput{Cloud: &s.Observed.Cloud, Record: record, Unsent: s.StartUnsent(), Now: s.Now()})
	if s.Policy.Start == lifecycle.StartOver {
		p.fail(ctx, s, fmt.Sprintf("drover started server %s at %s, and at %s its state in the cloud was %s: drover does not start it again",
			server.ID, record.Time.UTC().Format(time.RFC3339), s.Now().UTC().Format(time.RFC3339), server.Status))
	}
	return true, nil
}

// lookNow asks the cloud for the Machine's server, and reports whether the cloud has answered.
func lookNow(ctx context.Context, s *scope.Scope) bool {
	seen, err := s.Instance.ObserveNow(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("The cloud did not answer the request for a server", "cause", err.Error())
		return false
	}
	s.Observed.Cloud = seen
	s.ReadMachine()
	return true
}

// fail records that the server does not start.
func (p *Power) fail(ctx context.Context, s *scope.Scope, why string) {
	failed := *s.Machine.Status.ServerStart
	failed.Failure = fault.Line(why)
	s.Machine.Status.ServerStart, s.Policy.Start = &failed, lifecycle.StartFailed
	p.decided(ctx, lifecycle.ReasonServerWontStart, failed.Failure)
	s.WarnOnWrite(lifecycle.ReasonServerWontStart, failed.Failure)
}

// decided counts and logs a decision about a server that was shut down.
func (p *Power) decided(ctx context.Context, reason, message string) {
	p.Decisions.WithLabelValues(reason).Inc()
	ctrl.LoggerFrom(ctx).Info(message, "decision", reason)
}

// notSent reports whether a request to start a server was certainly not carried out although the cloud did not refuse it: it was not sent,
// or the cloud did not authenticate it. Another request may work. cause is the request's error; nil when the cloud accepted it.
func notSent(cause *fault.Error) bool {
	return cause != nil &&
		(cause.Class == fault.RateLimited || cause.Class == fault.Auth && cause.Code != fault.CodeForbidden || cause.Code == fault.CodeUnsettled)
}

// mayBeSent reports whether a request to start a server may have been carried out although it failed.
func mayBeSent(cause *fault.Error) bool {
	return cause.Class == fault.Transient || cause.Class == fault.Unknown || cause.Class == fault.NotFound
}
