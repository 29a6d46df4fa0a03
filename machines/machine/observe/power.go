package observe

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// observeStart decides how far the start of a server is that is shut down. For every other server it does nothing.
func (o *Observer) observeStart(ctx context.Context, s *scope.Scope) error {
	server := s.Observed.Cloud.Server
	if server == nil || server.State != cloud.ServerStopped && server.State != cloud.ServerStarting {
		return nil
	}
	group, err := o.groupOf(ctx, s.Machine)
	if err != nil {
		return err
	}
	s.Policy.Start = lifecycle.JudgeStart(lifecycle.StartInput{
		Cloud: &s.Observed.Cloud, Record: s.Machine.Status.ServerStart, Unsent: s.StartUnsent(),
		Refrain: optedOut(s.Machine) || optedOut(group.Holder), Now: s.Now(),
	})
	return nil
}

// optedOut reports whether people do not want drover to heal the Machines of that object.
func optedOut(o client.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationSkipHealth] == "true"
}
