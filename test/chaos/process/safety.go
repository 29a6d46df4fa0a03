package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health"
	healthverdict "github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/safety/freeze"
	"github.com/drover-project/drover/machines/safety/orphans"
	orphansverdict "github.com/drover-project/drover/machines/safety/orphans/verdict"
	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/test/chaos/world"
)

// The settings of what heals and collects: like those of cmd/drover, with shorter times, and so that two of three Machines may be
// unhealthy.
const (
	healthTimeout = time.Minute
	maxUnhealthy  = 70
	orphanAge     = time.Minute
	// OrphanPeriod is the time between two looks for orphans.
	OrphanPeriod = time.Minute
)

// newReach makes what asks whether the API server answers; nil in worlds in which nobody does.
func (p *Process) newReach(mgr manager.Manager) (*reach.Watch, error) {
	if !p.world.Safety {
		return nil, nil
	}
	asked := reach.New(reach.Options{Control: mgr.GetAPIReader(), Clock: clock.RealClock{}})
	return asked, mgr.Add(asked)
}

// addSafety adds what heals, collects and freezes, in worlds that have it.
func (p *Process) addSafety(mgr manager.Manager, os *openstack.Cloud, asked *reach.Watch) error {
	if !p.world.Safety {
		return nil
	}
	now, lease := clock.RealClock{}, &p.life.lease
	repair, err := health.New(health.Options{
		Control: mgr, Target: mgr, Clock: now, Provider: os, Lease: lease,
		Trust: func() (string, time.Time) { state := asked.State(); return state.Message, state.Recovered },
		Settings: healthverdict.Settings{
			Timeout: healthTimeout, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: maxUnhealthy, Join: joinTimeout,
			Conditions: []corev1.NodeConditionType{world.Deadlock},
		},
	})
	if err != nil {
		return fmt.Errorf("making the controller of unhealthy Machines: %w", err)
	}
	freezes, err := freeze.New(freeze.Options{Control: mgr, Clock: now, Lease: lease, Limits: freeze.Limits{Up: 2, Down: 1, Period: time.Minute}})
	if err != nil {
		return fmt.Errorf("making the freeze of groups: %w", err)
	}
	began := time.Now()
	collector, err := orphans.New(orphans.Options{
		Control: mgr, Target: mgr, Cloud: os, Clock: now, Lease: lease, Period: OrphanPeriod, VolumeTimeout: 5 * time.Minute,
		Settings:  orphansverdict.Settings{Age: orphanAge, MaxPerPass: 10, DrainTimeout: 2 * time.Hour},
		Namespace: world.Namespace, IDConfigMap: world.ClusterIDConfigMap, ClusterID: clusterID,
		Confirmed: confirmed(mgr.GetClient()),
		Leading:   func() (before, since time.Time) { return p.options.LedBefore, began },
		Stale:     func() string { return asked.State().Message },
	})
	if err != nil {
		return fmt.Errorf("making the collector of orphans: %w", err)
	}
	return errors.Join(repair.SetupWithManager(mgr), freezes.SetupWithManager(mgr), collector.SetupWithManager(mgr))
}

// confirmed reads whether an operator has confirmed that orphans may be deleted.
func confirmed(c client.Reader) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var id corev1.ConfigMap
		err := c.Get(ctx, client.ObjectKey{Namespace: world.Namespace, Name: world.ClusterIDConfigMap}, &id)
		return id.Annotations[v1alpha1.AnnotationCollect] == "yes", err
	}
}
