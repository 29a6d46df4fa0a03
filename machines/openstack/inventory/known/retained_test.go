package known

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

func TestReleaseOfARetainedPort(t *testing.T) {
	idle := func(t *testing.T) (*Project, Retained) {
		t.Helper()
		p := newProject(owner.Machine{UID: "u1"})
		p.SetPort(portTag, addresses.Port{ID: "port-1"}, noon)
		return p, Retained{portTag, "port-1"}
	}
	t.Run("waits while a server is being made on the port (F-18)", func(t *testing.T) {
		p, port := idle(t)
		err := p.BeginMaking("u1")
		if err != nil || p.BeginRelease(port) {
			t.Fatalf("the port is released under a server that is being made: %v", err)
		}
		p.EndMaking("u1")
		if !p.BeginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
	})
	t.Run("keeps servers from being made on the port meanwhile (F-18)", func(t *testing.T) {
		p, port := idle(t)
		if !p.BeginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
		if err := p.BeginMaking("u1"); !fault.Is(err, fault.Transient) {
			t.Errorf("a server is made on a port that is being released: %v", err)
		}
	})
	t.Run("leaves a port known when the release fails, and drops it when it succeeds (F-18)", func(t *testing.T) {
		p, port := idle(t)
		for _, released := range []bool{false, true} {
			if !p.BeginRelease(port) {
				t.Fatal("the port of an idle Machine is not released")
			}
			p.EndRelease(port, released)
			if _, known := p.Addresses.Ports("u1")[0]; known == released {
				t.Errorf("released %v: the port is known: %v", released, known)
			}
		}
	})
}
