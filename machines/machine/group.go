package machine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// groupOf reads the Machine's group from the caches. It ignores an owner that does not exist, or that has another UID than
// the owner reference.
func (o *observer) groupOf(ctx context.Context, m *v1alpha1.Machine) (scope.Group, error) {
	g := scope.Group{Holder: m}
	var set v1alpha1.MachineSet
	found, err := o.owner(ctx, m, v1alpha1.MachineSetKind.Kind, &set)
	if err != nil || !found {
		return g, err
	}
	g.Holder, g.Set = &set, set.UID
	// A set whose revision cannot be parsed counts as the oldest set.
	g.Revision, _ = strconv.ParseInt(set.Annotations[v1alpha1.AnnotationRevision], 10, 64)
	var d v1alpha1.MachineDeployment
	if found, err = o.owner(ctx, &set, v1alpha1.MachineDeploymentKind.Kind, &d); err == nil && found {
		g.Holder = &d
	}
	return g, err
}

// owner reads the controller owner of an object, if the owner has the given kind, and reports whether it exists.
func (o *observer) owner(ctx context.Context, of client.Object, kind string, into client.Object) (bool, error) {
	ref := metav1.GetControllerOf(of)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	err := o.control.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	return into.GetUID() == ref.UID, nil
}

// timeoutsOf returns the timeouts from the annotations of the Machine, otherwise from those of its deployment (its set, if
// it has no deployment), otherwise the defaults. It skips each annotation that cannot be parsed, and describes it in wrong.
// It is called in each reconcile, so that a running drain can be shortened.
func (o *observer) timeoutsOf(m *v1alpha1.Machine, g scope.Group) (t lifecycle.Timeouts, wrong []string) {
	t = o.timeouts
	for key, into := range map[string]*time.Duration{
		v1alpha1.AnnotationDrainTimeout: &t.Drain, v1alpha1.AnnotationVolumeDetachTimeout: &t.Volumes, v1alpha1.AnnotationJoinTimeout: &t.Join,
	} {
		for _, o := range []client.Object{m, g.Holder} {
			text, ok := o.GetAnnotations()[key]
			if !ok {
				continue
			}
			d, err := time.ParseDuration(text)
			if err == nil && d >= 0 {
				*into = d
				break
			}
			wrong = append(wrong, fmt.Sprintf("annotation %s: %q is not a duration such as 30m", key, text))
		}
	}
	return t, wrong
}

// observeStart computes the state of the start of a server that is shut down. For any other server it does nothing.
func (o *observer) observeStart(ctx context.Context, s *scope.Scope) error {
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

// refrainNow reads the Machine's group from the API server, because the cache may be late. It reports whether an operator
// does not want drover to start the Machine's server. It also returns true when the group is gone, or when another object has
// its name.
func (o *observer) refrainNow(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
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
	err = o.liveControl.Get(ctx, client.ObjectKeyFromObject(group.Holder), live)
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
