package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestCreateCallWhoseAnswerWasLost(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		fulls int
		want  bool
	}{
		"is in doubt in the first two minutes, even after five complete lists (CAPI-19)":                          {SettleTime - time.Second, 5, false},
		"is in doubt even after an hour when drover has received only one complete list since the call (CAPI-19)": {time.Hour, 1, false},
		"is no longer in doubt after two minutes and two complete lists (CAPI-19)":                                {SettleTime, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, tag := newProject(), Tag{Kind: cloud.ResourcePort, Machine: "u1"}
			p.attempted(tag, noon)
			p.fulls += tc.fulls
			err := p.CloseCreate(tag, noon.Add(tc.after))
			if _, inDoubt := p.creates[tag]; (err == nil) != tc.want || inDoubt == tc.want {
				t.Fatalf("got %v, in doubt: %v; want settled %v", err, inDoubt, tc.want)
			}
			if !tc.want && !strings.Contains(err.Error(), "the call at 12:00:00 created the port") {
				t.Errorf("the error does not name the call: %v", err)
			}
		})
	}
}

func TestCreateCallsInDoubtOfDeletedMachines(t *testing.T) {
	t.Run("are forgotten after two minutes and two complete lists, unlike those of existing Machines (F-12)", func(t *testing.T) {
		p := newProject(Machine{UID: "0"})
		for n := range 10_000 {
			p.attempted(Tag{Kind: cloud.ResourcePort, Machine: types.UID(fmt.Sprint(n))}, noon)
		}
		p.list(noon.Add(SettleTime), AddressLists{})
		if len(p.creates) != 10_000 {
			t.Fatalf("%d creates are in doubt after one list, want all", len(p.creates))
		}
		p.list(noon.Add(2*SettleTime), AddressLists{})
		if len(p.creates) != 1 || len(p.creates.of("0")) != 1 {
			t.Errorf("%d creates are in doubt, want that of the living Machine", len(p.creates))
		}
	})
}

// portTag is the owner tag of the first port of the Machine u1.
var portTag = testCluster.Tag(cloud.ResourcePort, "u1", 0)

func TestPortsThatAnEarlierRequestForAServerPossiblyUses(t *testing.T) {
	found := Port{ID: "a"}
	server := testCluster.Tag(cloud.ResourceServer, "u1", 0)
	for name, tc := range map[string]struct {
		do   func(*Project)
		want bool
	}{
		"a port that this process created does not count as used by an earlier request for a server (F-21)":          {func(p *Project) { p.AddPort(portTag, Port{ID: "a"}, noon) }, false},
		"a port known only from a list counts as possibly used by the previous leader's request for a server (F-21)": {func(p *Project) { p.SetPort(portTag, found, noon) }, true},
		"a port that this process created still does not count as used after a list has shown the port (F-21)": {func(p *Project) {
			p.AddPort(portTag, Port{ID: "a"}, noon)
			p.SetPort(portTag, found, noon)
		}, false},
		"a port counts as possibly used when the answer to a request for a server with that port was lost (F-21)": {func(p *Project) {
			p.AddPort(portTag, Port{ID: "a"}, noon)
			p.attempted(server, noon)
		}, true},
		"a port whose own create call lost its answer does not count as used, because no server was requested with it yet (F-21)": {func(p *Project) {
			p.attempted(portTag, noon)
			p.SetPort(portTag, found, noon)
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
			err := p.FoundUnbound(portTag, Port{ID: "a", DeviceID: tc.device}, noon)
			if (err == nil) != tc.want || err != nil && !fault.Is(err, fault.Transient) {
				t.Errorf("got %v", err)
			}
		})
	}
}
