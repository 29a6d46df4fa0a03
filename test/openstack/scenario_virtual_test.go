package openstack_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/test/openstack"
)

// TestTheSimulatedCloudTakesTheConfiguredVirtualTime uses the cloud's RoundTripper in virtual time: it takes no real time, and every duration is exact.
func TestTheSimulatedCloudTakesTheConfiguredVirtualTime(t *testing.T) {
	t.Run("a boot takes the configured boot time, and a call the configured latency", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Config{Seed: openstack.SeedMetaKube, BootTime: 3 * time.Second, Latency: 50 * time.Millisecond})
			defer cloud.Close()
			c := login(t, cloud, cloud.RoundTripper())
			k := c.known(t)
			begin := time.Now()
			s := c.boot(t, k.server("node-1", ""), nil)
			if took := time.Since(begin); took != 50*time.Millisecond {
				t.Errorf("the call took %s", took)
			}
			time.Sleep(time.Until(begin.Add(3*time.Second - time.Millisecond)))
			if status := c.get(t, s.ID).Status; status != "BUILD" {
				t.Errorf("1 ms before it boots it is %s", status)
			}
			got := c.get(t, s.ID)
			if launched := got.LaunchedAt.Sub(begin); got.Status != "ACTIVE" || launched != 3050*time.Millisecond {
				t.Errorf("it is %s, launched %s after it was asked for", got.Status, launched)
			}
		})
	})
	t.Run("when the cloud carries out only two calls of a kind at a time, further calls of this kind wait (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Config{Seed: openstack.SeedMetaKube, Paces: map[string]openstack.Pace{
				"GET /ports": {Latency: time.Second, AtATime: 2},
			}})
			defer cloud.Close()
			c := login(t, cloud, cloud.RoundTripper())
			begin := time.Now()
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if _, err := ports.List(c.network, nil).AllPages(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(begin); took != 3*time.Second {
				t.Errorf("five calls of 1 s, two at a time, took %s", took)
			}
		})
	})
	t.Run("a hundred concurrent calls take only the latency of one call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Config{Seed: openstack.SeedMetaKube, Latency: time.Second})
			defer cloud.Close()
			c := login(t, cloud, cloud.RoundTripper())
			begin := time.Now()
			var calls sync.WaitGroup
			for range 100 {
				calls.Go(func() { c.list(t, servers.ListOpts{}) })
			}
			calls.Wait()
			if took := time.Since(begin); took != time.Second {
				t.Errorf("100 calls took %s", took)
			}
			if peak := cloud.PeakCalls(); peak != 100 {
				t.Errorf("peak %d", peak)
			}
		})
	})
	t.Run("a hanging call ends at the client's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Config{Seed: openstack.SeedMetaKube})
			defer cloud.Close()
			c := login(t, cloud, cloud.Transport())
			cloud.Inject(openstack.Fault{Call: "GET /servers/detail", Hang: true})
			c.provider.HTTPClient.Timeout = 30 * time.Second
			begin := time.Now()
			if _, err := servers.List(c.compute, nil).AllPages(t.Context()); err == nil {
				t.Error("it answered")
			}
			if took := time.Since(begin); took != 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	})
}

func TestInTheSimulatedCloudAServerBootsOnlyWhenTheFakeClockIsStepped(t *testing.T) {
	fake := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cloud := openstack.New(openstack.Config{Clock: fake, Seed: openstack.SeedMetaKube, BootTime: time.Minute})
	t.Cleanup(cloud.Close)
	booted := make(chan openstack.Server, 1)
	cloud.OnBoot(func(s openstack.Server) { booted <- s })
	c := login(t, cloud, cloud.RoundTripper())
	s := c.boot(t, c.known(t).server("node-1", ""), nil)
	for range 3 {
		if status := c.get(t, s.ID).Status; status != "BUILD" {
			t.Fatal(status)
		}
	}
	fake.Step(time.Minute)
	if got := <-booted; got.ID != s.ID || got.Status != "ACTIVE" || len(got.FixedIPs) != 1 || string(got.UserData) != "#cloud-config\n" {
		t.Errorf("booted %+v", got)
	}
	if status := c.get(t, s.ID).Status; status != "ACTIVE" {
		t.Error(status)
	}
}

func TestTheOnBootCallbackMayCallTheSimulatedCloud(t *testing.T) {
	cloud := start(t, openstack.Config{})
	var mu sync.Mutex
	var seen []string
	cloud.OnBoot(func(s openstack.Server) {
		_, there := cloud.Server(s.ID)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(s.Name, there))
	})
	c := login(t, cloud, nil)
	k := c.known(t)
	c.boot(t, k.server("a", ""), nil)
	c.boot(t, k.server("b", ""), nil)
	eventually(t, "both told, in order", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(seen, []string{"atrue", "btrue"})
	})
}
