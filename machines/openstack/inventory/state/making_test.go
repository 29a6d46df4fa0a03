package state

import (
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

// portTag is the owner tag of the first port of the Machine u1.
var portTag = testCluster.Tag(PortKind, "u1", 0)

func TestPortsThatAnEarlierRequestForAServerPossiblyUses(t *testing.T) {
	found := PortRow{ID: "a"}
	server := testCluster.Tag(ServerKind, "u1", 0)
	for name, tc := range map[string]struct {
		do   func(*Project)
		want bool
	}{
		"a port that this process created does not count as used by an earlier request for a server (F-21)":          {func(p *Project) { p.SetPort(portTag, Port{ID: "a"}, noon) }, false},
		"a port known only from a list counts as possibly used by the previous leader's request for a server (F-21)": {func(p *Project) { p.SetPort(portTag, found.Owned(), noon) }, true},
		"a port that this process created still does not count as used after a list has shown the port (F-21)": {func(p *Project) {
			p.SetPort(portTag, Port{ID: "a"}, noon)
			p.SetPort(portTag, found.Owned(), noon)
		}, false},
		"a port counts as possibly used when the answer to a request for a server with that port was lost (F-21)": {func(p *Project) {
			p.SetPort(portTag, Port{ID: "a"}, noon)
			p.attempted(server, noon)
		}, true},
		"a port whose own create call lost its answer does not count as used, because no server was requested with it yet (F-21)": {func(p *Project) {
			p.attempted(portTag, noon)
			p.SetPort(portTag, found.Owned(), noon)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject()
			tc.do(p)
			if got := p.Addresses.Ports("u1")[0].NamedByCreate; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOnlyAPortWithoutAnExistingServerIsFree(t *testing.T) {
	for name, tc := range map[string]struct {
		device string
		want   bool
	}{
		"a port without a server is free (F-21)":                                      {"", true},
		"a port whose server is gone is free (F-21)":                                  {"gone", true},
		"a port whose server exists is in use (F-21)":                                 {"living", false},
		"a port that is bound to a server that drover does not know is in use (F-21)": {"unknown", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject()
			p.AddServer("u1", "living", "worker-1", noon)
			p.AddServer("u2", "gone", "worker-2", noon)
			p.Servers.markGone("gone", "u2", noon)
			err := p.FoundUnbound(portTag, &PortRow{ID: "a", DeviceID: tc.device}, noon)
			if (err == nil) != tc.want || err != nil && !fault.Is(err, fault.Transient) {
				t.Errorf("got %v", err)
			}
		})
	}
}
