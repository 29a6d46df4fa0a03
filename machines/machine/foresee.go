package machine

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/steps"
)

// Forecast is what the controller would do with a Machine.
type Forecast struct {
	// Step is the first step that waits or that changes a server or a Node. Reason is the reason of that step.
	Step   lifecycle.Step
	Reason string
	// Detail explains the step to users; it may be empty.
	Detail string
	// Server is the Machine's server; nil when no server is known. Node is the name of the Machine's Node; empty when it has
	// no Node.
	Server *cloud.Server
	Node   string
	// Unsettled reports whether the lists of servers are still incomplete, so that the forecast may change within seconds.
	Unsettled bool
	// Warnings name the fields of the spec that have no effect.
	Warnings []string
}

// Forecaster predicts what the controller would do. It observes Machines and consults the lifecycle table as the controller
// does. For a Machine without a server it also asks for the user data. It takes no other step, and its clients write nothing.
type Forecaster struct{ reconciler *Reconciler }

// NewForecaster returns a Forecaster that reads the caches of the clusters in o, and adds the indexes that the Forecaster
// needs. The caches must not have been started yet, and the clients of o must write nothing. Kinds, Lease, Reach and Registry
// of o are ignored. NewForecaster returns an error if an index cannot be added.
func NewForecaster(ctx context.Context, o Options) (*Forecaster, error) {
	o.Kinds, o.Lease, o.Reach, o.Registry = nil, nil, nil, nil
	r := New(o)
	return &Forecaster{r}, r.index(ctx)
}

// Of returns what the controller would do with a Machine. It returns an error if the caches cannot be read.
func (f *Forecaster) Of(ctx context.Context, m *v1alpha1.Machine) (Forecast, error) {
	s := f.reconciler.store.Open(m)
	if err := f.reconciler.observer.observe(ctx, s); err != nil {
		return Forecast{}, fmt.Errorf("observing Machine %s/%s: %w", m.Namespace, m.Name, err)
	}
	seen := &s.Observed
	out := Forecast{Server: seen.Cloud.Server, Warnings: s.Warnings}
	out.Unsettled = seen.CloudErr != nil && (seen.CloudErr.Code == fault.CodeUnsettled || seen.CloudErr.Code == fault.CodeWaitingForTurn) ||
		seen.CloudErr == nil && !seen.Cloud.Synced && !seen.LeftAlone()
	if seen.Node != nil {
		out.Node = seen.Node.Name
	}
	last := lifecycle.Foresee(s.Facts())
	out.Step, out.Reason, out.Detail = last.Step, last.Reason, detailOf(last, seen)
	if last.Step == lifecycle.MakeUserData {
		f.askForUserData(ctx, s, &out)
	}
	return out, nil
}

// askForUserData changes the forecast of a Machine that would get a server when the Machine's user data cannot be created.
func (f *Forecaster) askForUserData(ctx context.Context, s *scope.Scope, out *Forecast) {
	_, cause := steps.UserData(ctx, f.reconciler.options.Bootstrap, s)
	if cause == nil {
		return
	}
	out.Step, out.Reason, out.Detail = lifecycle.Fail, string(cause.Code), cause.Message
	if cause.Code == fault.CodeBootstrapPending {
		out.Step = lifecycle.Wait
	}
}

// detailOf explains a decision with the observed facts.
func detailOf(d lifecycle.Decision, seen *lifecycle.Observed) string {
	switch d.Reason {
	case lifecycle.ReasonForeign:
		return seen.Cloud.Foreign
	case lifecycle.ReasonServerUnknown:
		return seen.Cloud.Unknown
	case lifecycle.ReasonHeld:
		return seen.Cloud.Held
	case lifecycle.ReasonNodeTaken:
		return seen.Taken
	case lifecycle.ReasonServerError:
		if seen.Cloud.Server.Fault != nil {
			return fault.Of(seen.Cloud.Server.Fault).Message
		}
	}
	if seen.CloudErr != nil {
		return seen.CloudErr.Message
	}
	return ""
}
