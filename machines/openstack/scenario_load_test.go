package openstack

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/openstack/load"
)

// slow is a driver with a simulated cloud that takes 1.4 s to create or delete a port, and 1 s to create or delete a server.
type slow struct {
	*testing.T
	sim      *sim.Cloud
	cloud    *Cloud
	traffic  *load.Recorder
	machines map[types.NamespacedName]*v1alpha1.Machine
	keys     []types.NamespacedName

	registry *prometheus.Registry
	load.Waker
}

// requests returns how many requests are in flight or wait for their turn.
func (s *slow) requests() (n float64) {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); name == "drover_openstack_in_flight" || name == "drover_openstack_waiting" {
			for _, m := range f.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// workersOfController is smaller than the number of Machines, because Machines that wait must not occupy workers.
const workersOfController = 10

func newSlow(t *testing.T, machines, atATime int) *slow {
	t.Helper()
	port, server := sim.Pace{Latency: 1400 * time.Millisecond, AtATime: atATime}, sim.Pace{Latency: time.Second, AtATime: atATime}
	s := &slow{T: t, registry: prometheus.NewRegistry(), traffic: &load.Recorder{}, machines: map[types.NamespacedName]*v1alpha1.Machine{}}
	s.sim = sim.New(sim.Config{Seed: sim.SeedMetaKube, BootTime: 3 * time.Second, DeleteTime: time.Second, Paces: map[string]sim.Pace{
		"POST /ports": port, "DELETE /ports/{id}": port, "POST /servers": server, "DELETE /servers/{id}": server,
	}})
	t.Cleanup(s.sim.Close)
	s.traffic.Next = s.sim.RoundTripper()
	c, err := New(Options{HTTP: s.traffic, Registry: s.registry, ClusterID: testCluster, Options: spec.Options{Configured: client.Credentials{
		IdentityEndpoint: s.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s.cloud = c
	for n := range machines {
		m := newMachine(t, fmt.Sprintf("m-%d", n), seedFields())
		key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		s.machines[key], s.keys = m, append(s.keys, key)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = c.Start(ctx) })
	all.Go(func() {
		for {
			select {
			case key := <-c.Changes():
				s.Woken(key)
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	return s
}

// reconcile calls step for each Machine until step reports that it is done, as the Machine controller does. It returns
// the time until all Machines were done.
func (s *slow) reconcile(step func(ctx context.Context, m *v1alpha1.Machine) (bool, error)) time.Duration {
	began := time.Now()
	load.Workers{Count: workersOfController, Follow: s.Follow, Reconcile: func(key types.NamespacedName) time.Duration {
		done, err := step(load.For(s.Context(), key.Name), s.machines[key])
		switch e := fault.Of(err); {
		case done:
			return -1
		case e != nil && e.Class != fault.RateLimited:
			s.Error(err)
		case e != nil:
			return e.RetryAfter
		}
		return 15 * time.Second
	}}.Run(s.keys)
	return time.Since(began)
}

// create runs one reconcile of a Machine that needs a server.
func (s *slow) create(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
	i, err := s.cloud.Instance(ctx, m)
	if err != nil {
		return false, err
	}
	if f, err := i.Observe(ctx); err != nil || !f.Synced || f.Server != nil {
		return f.Server != nil, err
	}
	if err := i.(*instance).ensurePorts(ctx); err != nil {
		return false, err
	}
	_, err = i.EnsureServer(ctx, []byte("#cloud-config\n"))
	return err == nil, err
}

// remove runs one reconcile of a Machine that is being deleted.
func (s *slow) remove(ctx context.Context, m *v1alpha1.Machine) (bool, error) {
	m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	i, err := s.cloud.Instance(ctx, m)
	if err != nil {
		return false, err
	}
	f, err := i.Observe(ctx)
	switch {
	case err != nil:
		return false, err
	case f.Server != nil:
		return false, i.DeleteServer(ctx)
	}
	released, err := i.Release(ctx)
	return released.Done, err
}

func TestCloudIsNeverIdleWhileAMachineWaits(t *testing.T) {
	const machines, port, server = 20, 1400 * time.Millisecond, time.Second
	for atATime, calls := range map[int]string{1: "one call", 2: "two calls", 8: "eight calls"} {
		t.Run("creating or deleting 20 Machines takes at most 1.4 times the minimum time when the cloud serves "+calls+" at a time (F-56)", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlow(t, machines, atATime)
				began := time.Now()
				floor := time.Duration((machines+atATime-1)/atATime)*port + server
				if took := s.reconcile(s.create); 10*took > 13*floor {
					t.Errorf("the creation took %s, the cloud needs %s", took, floor)
				}
				if idle := s.traffic.Idle(began, "POST /ports", "POST /servers"); idle.Kind > time.Second {
					t.Errorf("a Machine waited for %s while no request of the kind was in flight, and for %s while none was", idle.Kind, idle.Any)
				}
				time.Sleep(time.Minute)
				// Nova deletes a server in one second, and a list shows it up to two seconds later.
				floor += 3 * time.Second
				if took := s.reconcile(s.remove); 10*took > 14*floor {
					t.Errorf("the deletion took %s, the cloud needs %s", took, floor)
				}
				if left := s.requests(); left > 0 {
					t.Errorf("F-12: %v requests are left in the queues", left)
				}
			})
		})
	}
}
