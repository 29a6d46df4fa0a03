package inventory

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestReleaseOfARetainedPort(t *testing.T) {
	idle := func(t *testing.T) (*Project, retained) {
		t.Helper()
		p, tag := newProject(t, Machine{UID: "u1"}), OwnerTag{PortKind, testCluster, "u1", 0}
		p.AddPort(tag, &PortRow{ID: "port-1"})
		return p, retained{tag, "port-1"}
	}
	t.Run("waits while a server is being made on the port (F-18)", func(t *testing.T) {
		p, port := idle(t)
		end, err := p.BeginMaking("u1")
		if err != nil || p.beginRelease(port) {
			t.Fatalf("the port is released under a server that is being made: %v", err)
		}
		end()
		if !p.beginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
	})
	t.Run("keeps servers from being made on the port meanwhile (F-18)", func(t *testing.T) {
		p, port := idle(t)
		if !p.beginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
		if _, err := p.BeginMaking("u1"); !fault.Is(err, fault.Transient) {
			t.Errorf("a server is made on a port that is being released: %v", err)
		}
	})
	t.Run("leaves a port known when the release fails, and drops it when it succeeds (F-18)", func(t *testing.T) {
		p, port := idle(t)
		for _, released := range []bool{false, true} {
			if !p.beginRelease(port) {
				t.Fatal("the port of an idle Machine is not released")
			}
			p.endRelease(port, released)
			if _, known := p.PortsOf("u1")[0]; known == released {
				t.Errorf("released %v: the port is known: %v", released, known)
			}
		}
	})
}
