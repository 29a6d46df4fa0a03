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

func TestCreateIsInDoubtForTwoMinutesAndTwoCompleteLists(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		fulls int
		want  bool
	}{
		"a create is in doubt in the first two minutes after the call, however many lists drover makes (CAPI-19)":        {SettleTime - time.Second, 5, false},
		"an hour after the call, a create is still in doubt when drover has made only one complete list since (CAPI-19)": {time.Hour, 1, false},
		"a create is no longer in doubt after two minutes and two complete lists (CAPI-19)":                              {SettleTime, 2, true},
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
	t.Run("a Machine for which this process has a create in doubt inherits no create of the previous leader", func(t *testing.T) {
		if got := d.Inherited(); !slices.Equal(got, []types.UID{"a", "b"}) || d.IsInherited(server("own")) {
			t.Errorf("got %v, want a and b", got)
		}
	})
	t.Run("inherited creates stay in doubt until the second look at their ports, even when that takes an hour", func(t *testing.T) {
		if reason := d.Settle(server("a"), noon.Add(time.Hour), 9); !strings.Contains(reason, "drover started at 12:00:00") {
			t.Errorf("got %q", reason)
		}
	})
	t.Run("the second look at the ports of inherited creates is due three seconds after drover's start", func(t *testing.T) {
		if left, any := d.UntilSecondLook(noon.Add(time.Second)); left != SecondLookAfter-time.Second || !any {
			t.Errorf("got %s, %v", left, any)
		}
	})
	t.Run("after the second look, inherited creates are no longer in doubt, and this process's own creates still are", func(t *testing.T) {
		if got := d.CloseInherited(); !slices.Equal(got, []types.UID{"a", "b"}) {
			t.Errorf("got %v, want a and b", got)
		}
		if _, any := d.UntilSecondLook(noon); any || !d.HasOf("own") || d.HasOf("a") {
			t.Errorf("inherited left: %v, own: %v, of a: %v", any, d.HasOf("own"), d.HasOf("a"))
		}
	})
}

func TestCreatesInDoubtOfDeletedMachines(t *testing.T) {
	t.Run("after two minutes and two lists, creates of deleted Machines are forgotten, and those of existing ones are kept (F-12)", func(t *testing.T) {
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
