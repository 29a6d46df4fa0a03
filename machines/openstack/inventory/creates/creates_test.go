package creates

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

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
			d, tag := New(), owner.Tag{Kind: owner.PortKind, Machine: "u1"}
			d.Add(tag, noon, 3)
			reason := d.Settle(tag, noon.Add(tc.after), 3+tc.fulls)
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
	server := func(machine types.UID) owner.Tag { return owner.Tag{Kind: owner.ServerKind, Machine: machine} }
	d := New()
	d.Add(server("own"), noon, 0)
	for _, machine := range []types.UID{"own", "b", "a"} {
		d.Inherit(server(machine), noon)
	}
	t.Run("a create in doubt of this process is not replaced by a create that the previous leader may have sent", func(t *testing.T) {
		if got := d.Inherited(); !slices.Equal(got, []types.UID{"a", "b"}) || d.IsInherited(server("own")) {
			t.Errorf("got %v, want a and b", got)
		}
	})
	t.Run("creates of the previous leader stay in doubt until the second look at their ports, even for an hour", func(t *testing.T) {
		if reason := d.Settle(server("a"), noon.Add(time.Hour), 9); !strings.Contains(reason, "drover started at 12:00:00") {
			t.Errorf("got %q", reason)
		}
	})
	t.Run("the second look at the ports of the previous leader's creates is due three seconds after drover's start", func(t *testing.T) {
		if left, any := d.UntilSecondLook(noon.Add(time.Second)); left != SecondLookAfter-time.Second || !any {
			t.Errorf("got %s, %v", left, any)
		}
	})
	t.Run("the second look ends the doubt about the previous leader's creates, and not about those of this process", func(t *testing.T) {
		if got := d.CloseInherited(); !slices.Equal(got, []types.UID{"a", "b"}) {
			t.Errorf("got %v, want a and b", got)
		}
		if _, any := d.UntilSecondLook(noon); any || !d.HasOf("own") || d.HasOf("a") {
			t.Errorf("inherited left: %v, own: %v, of a: %v", any, d.HasOf("own"), d.HasOf("a"))
		}
	})
}

func TestCreateCallsInDoubtOfDeletedMachines(t *testing.T) {
	t.Run("are forgotten after two minutes and two complete lists, unlike those of existing Machines (F-12)", func(t *testing.T) {
		d := New()
		for n := range 10_000 {
			d.Add(owner.Tag{Kind: owner.PortKind, Machine: types.UID(fmt.Sprint(n))}, noon, 0)
		}
		living := func(machine types.UID) bool { return machine != "0" }
		d.SettleIf(living, noon.Add(SettleTime), 1)
		if len(d.byTag) != 10_000 {
			t.Fatalf("%d creates are in doubt after one list, want all", len(d.byTag))
		}
		d.SettleIf(living, noon.Add(SettleTime), settleLists)
		if len(d.byTag) != 1 || !d.HasOf("0") {
			t.Errorf("%d creates are in doubt, want that of the living Machine", len(d.byTag))
		}
	})
}
