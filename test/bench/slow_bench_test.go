package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	driver "github.com/drover-project/drover/machines/openstack"
	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/openstack/load"
)

// slowCloud is a cloud with the latencies of a real one.
type slowCloud struct {
	// machines is the number of Machines to create. atATime is the number of calls of one kind that the cloud handles
	// concurrently.
	machines, atATime int
	// floating is true when each Machine gets a floating IP.
	floating bool
}

const (
	widePool   = "wide-pool"
	deleteTime = 5 * time.Second
)

// slowClouds runs f for each combination of the number of Machines, the cloud's concurrency, and with and without floating IPs.
func slowClouds(b *testing.B, f func(b *testing.B, s slowCloud)) {
	for _, n := range []int{20, 100} {
		for _, atATime := range []int{1, 2, 8} {
			for _, floating := range []bool{false, true} {
				b.Run(fmt.Sprintf("machines=%d/at-a-time=%d/floating=%t", n, atATime, floating), func(b *testing.B) {
					f(b, slowCloud{machines: n, atATime: atATime, floating: floating})
				})
			}
		}
	}
}

// config returns the configuration of the simulated cloud. The simulation calls seed with the new cloud, to fill it.
func (s slowCloud) config(seed func(*sim.Cloud)) sim.Config {
	pace := func(latency time.Duration) sim.Pace { return sim.Pace{Latency: latency, AtATime: s.atATime} }
	return sim.Config{
		Seed: seed, BootTime: boot, DeleteTime: deleteTime, Latency: latency,
		Paces: map[string]sim.Pace{
			"POST /ports": pace(1400 * time.Millisecond), "POST /floatingips": pace(2 * time.Second), "POST /servers": pace(time.Second),
			"DELETE /ports/{id}": pace(1400 * time.Millisecond), "DELETE /floatingips/{id}": pace(2 * time.Second), "DELETE /servers/{id}": pace(time.Second),
		},
	}
}

// seedPool adds a pool with addresses for all Machines, and returns its ID.
func seedPool(c *sim.Cloud) string {
	pool := c.AddNetwork(sim.Network{Name: widePool, External: true})
	if _, err := c.AddSubnet(sim.Subnet{Name: widePool, Network: pool, CIDR: "198.18.0.0/16"}); err != nil {
		panic(err)
	}
	return pool
}

// run holds how long the creation and the deletion took, until the last answer.
type run struct {
	created, deleted time.Duration
	idle             load.Idle
}

func (s slowCloud) kinds() []string {
	if s.floating {
		return []string{"POST /ports", "POST /floatingips", "POST /servers"}
	}
	return []string{"POST /ports", "POST /servers"}
}

// bare returns the times of a client that works on at most the given number of Machines concurrently; 0 means on all of them.
func (s slowCloud) bare(t *testing.T, flights int) (r run) {
	var network, pool, flavor, image string
	c := sim.New(s.config(func(c *sim.Cloud) {
		sim.SeedMetaKube(c)
		network = c.AddNetwork(sim.Network{Name: wideNetwork, Project: sim.MetaKubeProject})
		if _, err := c.AddSubnet(sim.Subnet{Name: wideNetwork, Network: network, CIDR: "10.0.0.0/16"}); err != nil {
			t.Error(err)
		}
		pool = seedPool(c)
		flavor = c.AddFlavor(sim.Flavor{Name: "bare", VCPUs: 2, RAM: 8192, Disk: 50})
		image = c.AddImage(sim.Image{Name: "bare", MinDisk: 8})
	}))
	defer c.Close()
	client, err := load.NewBare(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL(), Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
		DomainName: sim.MetaKubeDomain, TenantName: sim.MetaKubeProject,
	}, sim.MetaKubeRegion, c.RoundTripper())
	if err != nil {
		t.Fatal(err)
	}
	client.Network, client.Flavor, client.Image, client.Flights, client.DeleteTime = network, flavor, image, flights, deleteTime
	if s.floating {
		client.Pool = pool
	}
	began := time.Now()
	if err := client.Create(t.Context(), s.machines); err != nil {
		t.Fatal(err)
	}
	r.created = time.Since(began)
	time.Sleep(2 * boot)
	began = time.Now()
	if err := client.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.deleted = time.Since(began)
	return r
}

// floor returns the better times of two clients: one works on all Machines concurrently, the other on as many as the
// cloud handles concurrently.
func (s slowCloud) floor(t *testing.T) run {
	all, some := s.bare(t, 0), s.bare(t, len(s.kinds())*s.atATime)
	return run{created: min(all.created, some.created), deleted: min(all.deleted, some.deleted)}
}

// drover returns the times of drover from a cold start.
func (s slowCloud) drover(t *testing.T) (r run) {
	traffic := &load.Recorder{}
	config := s.config(func(c *sim.Cloud) { wide(c); seedPool(c) })
	cloud := newSite(t, config, driver.Options{HTTP: traffic})
	traffic.Next = cloud.cloud.RoundTripper()
	defer cloud.stop()
	pool := ""
	if s.floating {
		pool = widePool
	}
	var all []*v1alpha1.Machine
	for n := range s.machines {
		all = append(all, machineWith(t, n, pool))
	}
	began := time.Now()
	cloud.bringUp(t, all, workers)
	r.created, r.idle = traffic.Last("POST /servers").Sub(began), traffic.Idle(began, s.kinds()...)
	for cloud.active(t, all) < len(all) {
		time.Sleep(time.Second)
	}
	began = time.Now()
	for _, m := range all {
		m.DeletionTimestamp = &metav1.Time{Time: began}
	}
	cloud.reconcile(t, all, workers, cloud.remove)
	r.deleted = traffic.Last("DELETE /ports").Sub(began)
	if left := cloud.cloud.Leftovers(); len(left.Servers)+len(left.Ports)+len(left.FloatingIPs) > 0 {
		t.Errorf("%d servers, %d ports, %d floating IPs are left", len(left.Servers), len(left.Ports), len(left.FloatingIPs))
	}
	return r
}

// remove does what the Machine controller does in one pass of a Machine that is being deleted.
func (s *site) remove(ctx context.Context, m *v1alpha1.Machine) (time.Duration, bool, error) {
	// pollCloud is the time after which the controller checks again whether the cloud has deleted what it was asked to
	// delete.
	const pollCloud = 15 * time.Second
	i, err := s.driver.Instance(ctx, m)
	if err != nil {
		return 0, false, err
	}
	f, err := i.Observe(ctx)
	var released cloud.Released
	switch {
	case err != nil:
	case f.Server != nil:
		err = i.DeleteServer(ctx)
	default:
		released, err = i.Release(ctx)
	}
	if e := fault.Of(err); e != nil && e.Class == fault.RateLimited {
		return max(e.RetryAfter, time.Millisecond), false, nil
	}
	return pollCloud, released.Done, err
}

// BenchmarkOpenStackSlow creates and deletes Machines in a cloud whose calls take 1.4 s (ports), 2 s (floating IPs) and
// 1 s (servers). The cloud handles a limited number of calls of one kind concurrently. created/floor and deleted/floor
// are the times until the last POST /servers and the last DELETE /ports are answered, divided by the times of a bare
// client that makes the same calls in the same cloud (aims: at most 1.3 and 1.4). idle-s is the number of seconds of
// the creation in which a Machine waited and no request was in flight. kind-idle-s is the number of seconds in which no
// request of the kind that the Machine waited for was in flight (aim of both: 0; the first half second is the lookups
// of a cold start).
func BenchmarkOpenStackSlow(b *testing.B) {
	slowClouds(b, func(b *testing.B, s slowCloud) {
		for b.Loop() {
			var floor, got run
			inVirtualTime(b, func(t *testing.T) { floor = s.floor(t) })
			inVirtualTime(b, func(t *testing.T) { got = s.drover(t) })
			b.ReportMetric(got.created.Seconds()/floor.created.Seconds(), "created/floor")
			b.ReportMetric(got.deleted.Seconds()/floor.deleted.Seconds(), "deleted/floor")
			b.ReportMetric(got.idle.Any.Seconds(), "idle-s")
			b.ReportMetric(got.idle.Kind.Seconds(), "kind-idle-s")
			b.ReportMetric(got.created.Seconds(), "created-s")
			b.ReportMetric(got.deleted.Seconds(), "deleted-s")
		}
	})
}
