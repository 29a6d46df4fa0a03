package openstack

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	sim "github.com/drover-project/drover/test/openstack"
)

// slowDeletion is a RoundTripper that delays the first DELETE of a port until the channel let is closed.
type slowDeletion struct {
	once      sync.Once
	sent, let chan struct{}
	// port is the ID of the port in the delayed request.
	port string
}

func (r *slowDeletion) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "/ports/") {
		r.once.Do(func() {
			r.port = req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
			close(r.sent)
			<-r.let
		})
	}
	return http.DefaultTransport.RoundTrip(req)
}

func TestRetainedPorts(t *testing.T) {
	t.Parallel()
	t.Run("a Machine's retained port is kept when a server is created on it while drover deletes another Machine's retained port (F-18)", func(t *testing.T) {
		b := newBench(t, func(c *sim.Config) { c.BootTime, c.Quota = 0, sim.Quota{Ports: 2} })
		road := &slowDeletion{sent: make(chan struct{}), let: make(chan struct{})}
		b.options.HTTP = road
		b.restart()
		retained := map[string]cloud.Instance{}
		for _, name := range []string{"a", "b"} {
			m := newMachine(t, name, seedFields())
			i := b.synced(m)
			if err := i.ensurePorts(b.ctx); err != nil {
				t.Fatal(err)
			}
			retained[b.connectionOf(m.UID).attached().ResourcesOf(m.UID).Ports[0].ID] = i
		}
		if err := b.synced(newMachine(t, "c", seedFields())).ensurePorts(b.ctx); !fault.Is(err, fault.Quota) {
			t.Fatalf("the quota is not exhausted: %v", err)
		}
		b.eventually("the first port is being released", func() bool {
			select {
			case <-road.sent:
				return true
			default:
				return false
			}
		})
		used := ""
		for port, i := range retained {
			_, err := i.EnsureServer(b.ctx, nil)
			if port == road.port {
				if !fault.Is(err, fault.Transient) && !fault.Is(err, fault.Conflict) {
					t.Errorf("a server on the port that is being released: %v", err)
				}
				continue
			}
			if used = port; err != nil {
				t.Fatal(err)
			}
		}
		close(road.let)
		b.eventually("the first port is released", func() bool { return !slices.Contains(b.sim.Leftovers().Ports, road.port) })
		b.pass(2 * state.RestPeriod)
		if !slices.Contains(b.sim.Leftovers().Ports, used) {
			t.Error("the port of the new server was deleted")
		}
	})
}
