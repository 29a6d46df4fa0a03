package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
			d, tag := newCreates(), Tag{Kind: PortKind, Machine: "u1"}
			d.add(tag, noon, 3)
			reason := d.settle(tag, noon.Add(tc.after), 3+tc.fulls)
			if (reason == "") != tc.want || d.Has(tag) == tc.want {
				t.Fatalf("got reason %q, in doubt: %v; want settled %v", reason, d.Has(tag), tc.want)
			}
			if !tc.want && !strings.Contains(reason, "the call at 12:00:00 created the port") {
				t.Errorf("the reason does not name the call: %q", reason)
			}
		})
	}
}

func TestServerCreatesThatThePreviousLeaderMayHaveSent(t *testing.T) {
	server := func(machine types.UID) Tag { return Tag{Kind: ServerKind, Machine: machine} }
	d := newCreates()
	d.add(server("own"), noon, 0)
	for _, machine := range []types.UID{"own", "b", "a"} {
		d.inherit(server(machine), noon)
	}
	t.Run("a create in doubt of this process is not replaced by a create that the previous leader may have sent", func(t *testing.T) {
		if got := d.inherited(); !slices.Equal(got, []types.UID{"a", "b"}) || d.isInherited(server("own")) {
			t.Errorf("got %v, want a and b", got)
		}
	})
	t.Run("creates of the previous leader stay in doubt until the second look at their ports, even for an hour", func(t *testing.T) {
		if reason := d.settle(server("a"), noon.Add(time.Hour), 9); !strings.Contains(reason, "drover started at 12:00:00") {
			t.Errorf("got %q", reason)
		}
	})
	t.Run("the second look at the ports of the previous leader's creates is due three seconds after drover's start", func(t *testing.T) {
		if left, any := d.untilSecondLook(noon.Add(time.Second)); left != SecondLookAfter-time.Second || !any {
			t.Errorf("got %s, %v", left, any)
		}
	})
	t.Run("the second look ends the doubt about the previous leader's creates, and not about those of this process", func(t *testing.T) {
		if got := d.closeInherited(); !slices.Equal(got, []types.UID{"a", "b"}) {
			t.Errorf("got %v, want a and b", got)
		}
		if _, any := d.untilSecondLook(noon); any || !d.hasOf("own") || d.hasOf("a") {
			t.Errorf("inherited left: %v, own: %v, of a: %v", any, d.hasOf("own"), d.hasOf("a"))
		}
	})
}

func TestCreateCallsInDoubtOfDeletedMachines(t *testing.T) {
	t.Run("are forgotten after two minutes and two complete lists, unlike those of existing Machines (F-12)", func(t *testing.T) {
		d := newCreates()
		for n := range 10_000 {
			d.add(Tag{Kind: PortKind, Machine: types.UID(fmt.Sprint(n))}, noon, 0)
		}
		living := func(machine types.UID) bool { return machine != "0" }
		d.settleIf(living, noon.Add(SettleTime), 1)
		if len(d.byTag) != 10_000 {
			t.Fatalf("%d creates are in doubt after one list, want all", len(d.byTag))
		}
		d.settleIf(living, noon.Add(SettleTime), settleLists)
		if len(d.byTag) != 1 || !d.hasOf("0") {
			t.Errorf("%d creates are in doubt, want that of the living Machine", len(d.byTag))
		}
	})
}

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
