package process

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/health"
	healthverdict "github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/safety/orphans"
	orphansverdict "github.com/drover-project/drover/machines/safety/orphans/verdict"
	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/test/chaos/world"
)

// The settings of the controllers that replace unhealthy Machines and collect orphans. The times are shorter than the defaults of
// cmd/drover, and two of three Machines may be unhealthy.
const (
	healthTimeout = time.Minute
	maxUnhealthy  = 70
	orphanAge     = time.Minute
	// OrphanPeriod is the time between two rounds of the orphan collector. A round does not begin at the instant of another program's timer,
	// such as the probe of the API server every 5 s, because the order of their calls would be left to chance.
	OrphanPeriod = time.Minute + 1300*time.Millisecond
)

// newReach creates the watch of the API server's reachability. It returns nil in worlds without the safety controllers.
func (p *Process) newReach(mgr manager.Manager) *reach.Watch {
	if !p.world.Safety {
		return nil
	}
	asked := reach.New(reach.Options{Control: mgr.GetAPIReader(), Clock: clock.RealClock{}})
	p.registry.MustRegister(asked)
	return asked
}

// addSafety adds the controllers that replace unhealthy Machines and collect orphans, if the world has
// the safety controllers.
func (p *Process) addSafety(mgr manager.Manager, os *openstack.Cloud, asked *reach.Watch) error {
	if !p.world.Safety {
		return nil
	}
	now, lease := clock.RealClock{}, &p.life.lease
	repair, err := health.New(health.Options{
		Control: mgr, Target: mgr, Clock: now, Lease: lease, Registry: p.registry,
		Trust: asked.Stale,
		Settings: healthverdict.Settings{
			Timeout: healthTimeout, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: maxUnhealthy, Join: joinTimeout,
			Conditions: []corev1.NodeConditionType{world.Deadlock},
		},
	})
	if err != nil {
		return fmt.Errorf("creating the health controller: %w", err)
	}
	collector, err := orphans.New(orphans.Options{
		Control: mgr, Target: mgr, Cloud: os, Clock: now, Lease: lease, Period: OrphanPeriod, VolumeTimeout: 5 * time.Minute, Registry: p.registry,
		Settings: orphansverdict.Settings{Age: orphanAge}, MaxPerPass: 10, DrainTimeout: 2 * time.Hour, Namespace: world.Namespace,
		Stale: func() string { stale, _ := asked.Stale(); return stale },
	})
	if err != nil {
		return fmt.Errorf("creating the orphan collector: %w", err)
	}
	return errors.Join(mgr.Add(asked), repair.SetupWithManager(mgr), collector.SetupWithManager(mgr))
}
