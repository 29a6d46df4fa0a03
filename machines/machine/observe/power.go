package observe

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// observeStart computes the state of the start of a server that is shut down. For any other server it does nothing.
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
		Refrain: refrains(s.Machine) || refrains(group.Holder), Now: s.Now(),
	})
	return nil
}

// RefrainNow reads the Machine's group from the API server, because the cache may be late. It reports whether an operator
// does not want drover to start the Machine's server. It also returns true when the group is gone, or when another object has
// its name.
func (o *Observer) RefrainNow(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
	group, err := o.groupOf(ctx, m)
	if err != nil {
		return false, err
	}
	var live client.Object = &v1alpha1.Machine{}
	switch group.Holder.(type) {
	case *v1alpha1.MachineDeployment:
		live = &v1alpha1.MachineDeployment{}
	case *v1alpha1.MachineSet:
		live = &v1alpha1.MachineSet{}
	}
	err = o.LiveControl.Get(ctx, client.ObjectKeyFromObject(group.Holder), live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the group of Machine %s before its server is started: %w", m.Name, err)
	}
	return err != nil || live.GetUID() != group.Holder.GetUID() || refrains(live), nil
}

// refrains reports whether an annotation or field of the object tells drover not to touch its Machines, or not to repair
// them.
func refrains(o client.Object) bool {
	return v1alpha1.Paused(o.GetAnnotations()) || v1alpha1.SkipsHealth(o.GetAnnotations())
}
