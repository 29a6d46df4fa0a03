package openstack_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/test/openstack"
)

func TestTheSimulatedCloudWithRealisticTimes(t *testing.T) {
	t.Run("GETs of a new server show first its zone, then its host, then its addresses, and last the status ACTIVE (F-57)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Realistic(openstack.Config{Seed: openstack.SeedMetaKube}, 1))
			defer cloud.Close()
			c := login(t, cloud, cloud.RoundTripper())
			opts := c.known(t).server("node-1", "")
			opts.AvailabilityZone = ""
			s := c.boot(t, opts, nil)
			got := shapes(t, c, s.ID)
			want := []shape{
				{500 * time.Millisecond, "BUILD"}, {2 * time.Second, "BUILD zone"}, {4500 * time.Millisecond, "BUILD zone host"},
				{5500 * time.Millisecond, "BUILD zone host address"}, {10 * time.Second, "ACTIVE zone host address"},
			}
			if !slices.Equal(got, want) {
				t.Errorf("after the answer to POST it showed %v, want %v", got, want)
			}
		})
	})
	t.Run("a server that is deleted before Nova has assigned it to a host leaves nothing in the cloud", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := openstack.New(openstack.Realistic(openstack.Config{Seed: openstack.SeedMetaKube}, 1))
			defer cloud.Close()
			c := login(t, cloud, cloud.RoundTripper())
			s := c.boot(t, c.known(t).server("node-1", ""), nil)
			time.Sleep(3 * time.Second)
			if err := servers.Delete(t.Context(), c.compute, s.ID).ExtractErr(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if left := cloud.Servers(); len(left) != 0 {
				t.Errorf("left: %+v", left)
			}
		})
	})
	t.Run("the cloud creates eight ports in half the time when it creates twice as many at a time (F-56)", func(t *testing.T) {
		for atATime, want := range map[int]time.Duration{1: 11200 * time.Millisecond, 2: 5600 * time.Millisecond, 8: 1400 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				cloud := openstack.New(openstack.Realistic(openstack.Config{Seed: openstack.SeedMetaKube}, atATime))
				defer cloud.Close()
				c := login(t, cloud, cloud.RoundTripper())
				network := c.known(t).network
				begin := time.Now()
				var calls sync.WaitGroup
				for range 8 {
					calls.Go(func() {
						if _, err := ports.Create(t.Context(), c.network, ports.CreateOpts{NetworkID: network}).Extract(); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
				if took := time.Since(begin); took != want {
					t.Errorf("with %d at a time they took %s, want %s", atATime, took, want)
				}
			})
		}
	})
}

// shape is what a GET of a server shows, and how long after the answer to the server's POST it was first shown.
type shape struct {
	since time.Duration
	shows string
}

// shapes reads a server every 500 ms in its first 12 s, and returns each different shape once.
func shapes(t *testing.T, c clients, id string) []shape {
	t.Helper()
	const every, call = 500 * time.Millisecond, 70 * time.Millisecond
	var seen []shape
	for since := every; since <= 12*time.Second; since += every {
		time.Sleep(every - call)
		s := c.get(t, id)
		shows := s.Status
		if s.AvailabilityZone != "" {
			shows += " zone"
		}
		if s.HostID != "" {
			shows += " host"
		}
		if len(s.Addresses) > 0 {
			shows += " address"
		}
		if len(seen) == 0 || seen[len(seen)-1].shows != shows {
			seen = append(seen, shape{since, shows})
		}
	}
	return seen
}
