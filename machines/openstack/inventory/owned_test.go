package inventory

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestTwoPortsWithOneTag(t *testing.T) {
	tag := OwnerTag{PortKind, testCluster, "u1", 0}
	for name, tc := range map[string]struct {
		first, second PortRow
		doubt         bool
		want          string
	}{
		"keep the one that is known":                        {PortRow{ID: "a"}, PortRow{ID: "b"}, false, "a"},
		"keep the one that is known and bound":              {PortRow{ID: "a", DeviceID: "s"}, PortRow{ID: "b", DeviceID: "s"}, false, "a"},
		"take the other one when only that is bound":        {PortRow{ID: "a"}, PortRow{ID: "b", DeviceID: "s"}, false, "b"},
		"take the other one when the known one may be gone": {PortRow{ID: "a"}, PortRow{ID: "b"}, true, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.FoundPort(tag, &tc.first)
			if tc.doubt {
				p.DoubtPorts("u1")
			}
			p.FoundPort(tag, &tc.second)
			if got := p.PortsOf("u1")[0].ID; got != tc.want {
				t.Errorf("got port %s, want %s", got, tc.want)
			}
		})
	}
}

func TestOrderedPorts(t *testing.T) {
	tag := OwnerTag{PortKind, testCluster, "u1", 0}
	server := OwnerTag{ServerKind, testCluster, "u1", 0}
	lost := fault.New(fault.Transient, fault.CodeServerError, "no answer")
	for name, tc := range map[string]struct {
		do   func(*Project)
		want bool
	}{
		"no order names a port that this process made (F-21)":       {func(p *Project) { p.AddPort(tag, &PortRow{ID: "a"}) }, false},
		"an order may name a port that another process made (F-21)": {func(p *Project) { p.FoundPort(tag, &PortRow{ID: "a"}) }, true},
		"a list that shows an own port changes nothing (F-21)": {func(p *Project) {
			p.AddPort(tag, &PortRow{ID: "a"})
			p.FoundPort(tag, &PortRow{ID: "a"})
		}, false},
		"an order whose answer was lost may name the port (F-21)": {func(p *Project) {
			p.AddPort(tag, &PortRow{ID: "a"})
			p.Attempted(server, lost)
		}, true},
		"a port that is found after its own create was lost is an own port (F-21)": {func(p *Project) {
			p.Attempted(tag, lost)
			p.FoundPort(tag, &PortRow{ID: "a"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			tc.do(p)
			if got := p.PortsOf("u1")[0].Ordered; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFoundUnbound(t *testing.T) {
	tag := OwnerTag{PortKind, testCluster, "u1", 0}
	for name, tc := range map[string]struct {
		device string
		want   bool
	}{
		"accepts a port without a server (F-21)":          {"", true},
		"accepts a port whose server is gone (F-21)":      {"gone", true},
		"refuses a port whose server exists (F-21)":       {"living", false},
		"refuses a port whose server is not known (F-21)": {"unknown", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.AddServer("u1", "living", "worker-1")
			p.AddServer("u2", "gone", "worker-2")
			p.servers.markGone("gone", "u2", noon)
			err := p.FoundUnbound(tag, &PortRow{ID: "a", DeviceID: tc.device})
			if (err == nil) != tc.want || err != nil && !fault.Is(err, fault.Transient) {
				t.Errorf("got %v", err)
			}
		})
	}
}
