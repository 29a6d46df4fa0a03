package openstack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/test/openstack"
)

// twice is a simulated cloud on a fake clock, with one port on which two servers are requested.
type twice struct {
	clients
	clock *testclock.FakeClock
	cloud *openstack.Cloud
	known known
	port  string
}

func newTwice(t *testing.T, config openstack.Config) *twice {
	t.Helper()
	clock := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	config.Clock, config.BootTime = clock, time.Minute
	cloud := start(t, config)
	c := login(t, cloud, nil)
	k := c.known(t)
	return &twice{clients: c, clock: clock, cloud: cloud, known: k, port: c.port(t, k, "wanted twice").ID}
}

// status returns a server's status and its fault.
func (w *twice) status(t *testing.T, id string) (status, problem string) {
	t.Helper()
	s := w.get(t, id)
	return s.Status, s.Fault.Message
}

// device returns the ID of the server that the port is bound to. It is empty when the port is bound to no server.
func (w *twice) device(t *testing.T) string {
	t.Helper()
	p, err := ports.Get(t.Context(), w.network, w.port).Extract()
	if err != nil {
		t.Fatal(err)
	}
	return p.DeviceID
}

func TestTwoServersOnOnePortOfTheSimulatedCloud(t *testing.T) {
	for name, tt := range map[string]struct {
		apart      time.Duration
		firstFails bool
	}{
		"when two servers are requested at the same time, the second fails, and Nova's clean-up takes the port from the first (F-21)":   {0, false},
		"when two servers are requested one second apart, the second fails, and Nova's clean-up takes the port from the first (F-21)":   {time.Second, false},
		"with the simulated cloud's option FirstOfTwoFails, the first fails, and Nova's clean-up takes the port from the second (F-21)": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTwice(t, openstack.Config{FirstOfTwoFails: tt.firstFails})
			good := w.boot(t, w.known.server("node-1", w.port), nil)
			w.clock.Step(tt.apart)
			bad := w.boot(t, w.known.server("node-2", w.port), nil)
			if tt.firstFails {
				good, bad = bad, good
			}
			w.clock.Step(2 * time.Minute)
			if status, _ := w.status(t, good.ID); status != "ACTIVE" {
				t.Errorf("got %s, want ACTIVE", status)
			}
			if status, problem := w.status(t, bad.ID); status != "ERROR" || !strings.Contains(problem, "Failed to allocate the network(s), not rescheduling.") {
				t.Errorf("got %s %q, want ERROR", status, problem)
			}
			if got := w.device(t); got != "" {
				t.Errorf("the port is bound to %s, want to no server", got)
			}
			w.clock.Step(time.Minute)
			if s, _ := w.cloud.Server(good.ID); len(s.Ports)+len(s.FixedIPs) > 0 || len(w.get(t, good.ID).Addresses) > 0 {
				t.Errorf("the ACTIVE server still has an interface: %+v", s)
			}
		})
	}
}

func TestARequestToTheSimulatedNovaForASecondServerOnAPort(t *testing.T) {
	t.Run("is refused with 409, and the port stays bound to the first server (F-21)", func(t *testing.T) {
		w := newTwice(t, openstack.Config{})
		first := w.boot(t, w.known.server("node-1", w.port), nil)
		w.clock.Step(2 * time.Minute)
		_, err := servers.Create(t.Context(), w.compute, w.known.server("node-2", w.port), nil).Extract()
		if text := refused(t, err, 409); !strings.Contains(text, "is still in use") {
			t.Error(text)
		}
		if got := w.device(t); got != first.ID {
			t.Errorf("the port is bound to %q, want to %s", got, first.ID)
		}
	})
}

func TestARequestToTheSimulatedNovaForAServerOnAPortThatWasDeleted(t *testing.T) {
	t.Run("is refused with 400 when the port was deleted before the request (F-21)", func(t *testing.T) {
		w := newTwice(t, openstack.Config{})
		if err := ports.Delete(t.Context(), w.network, w.port).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		_, err := servers.Create(t.Context(), w.compute, w.known.server("node-1", w.port), nil).Extract()
		if text := refused(t, err, 400); !strings.Contains(text, "could not be found") {
			t.Error(text)
		}
	})
	t.Run("goes to ERROR when the port was deleted after Nova had accepted the server (F-21)", func(t *testing.T) {
		w := newTwice(t, openstack.Config{})
		s := w.boot(t, w.known.server("node-1", w.port), nil)
		if err := ports.Delete(t.Context(), w.network, w.port).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(2 * time.Minute)
		if status, problem := w.status(t, s.ID); status != "ERROR" || problem == "" {
			t.Errorf("got %s %q, want ERROR", status, problem)
		}
	})
}
