package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	quota = fault.New(fault.Quota, fault.CodeQuotaExceeded, "no more cores")
	small = asked{flavor: "small", zone: "a", revision: 3}
)

func failing(times int, a asked, err *fault.Error) (list []v1alpha1.GroupBackoff, last time.Time) {
	last = noon
	for i := range times {
		if i > 0 {
			last = list[0].Until.Time
		}
		list = withFailure(list, a, err, last)
	}
	return list, last
}

func TestShortages(t *testing.T) {
	t.Run("MCM-38 the wait doubles from 30 seconds to 5 minutes", func(t *testing.T) {
		for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
			list, last := failing(i+1, small, quota)
			if got := list[0].Until.Sub(last); got != want || len(list) != 1 || list[0].Step != int32(i+1) || !list[0].Since.Time.Equal(noon) {
				t.Errorf("failure %d: waits %v, want %v; %+v", i+1, got, want, list)
			}
		}
	})
	t.Run("failures of one moment are one", func(t *testing.T) {
		list := withFailure(nil, small, quota, noon)
		if again := withFailure(list, small, quota, noon.Add(29*time.Second)); again[0] != list[0] {
			t.Errorf("%+v", again)
		}
	})
	t.Run("a Machine that waits names the one that reported the failure, which may be gone (F-27)", func(t *testing.T) {
		reporter := asked{flavor: "small", zone: "a", machine: "nodes-x"}
		list := withFailure(nil, reporter, fault.New(fault.Quota, fault.CodeQuotaExceeded, "creating server nodes-x: no more cores"), noon)
		named := func(name string) *v1alpha1.Machine {
			return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		if got := shortageOf(&list[0], named("nodes-x")).Message; got != "creating server nodes-x: no more cores" {
			t.Errorf("its own message became %q", got)
		}
		want := "Machine nodes-x of the same group reported: creating server nodes-x: no more cores"
		if got := shortageOf(&list[0], named("nodes-y")).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("a message of a group is cut to what the schema takes (F-45)", func(t *testing.T) {
		long := fault.New(fault.Quota, fault.CodeQuotaExceeded, "%s", strings.Repeat("ä", 2000))
		if got := withFailure(nil, small, long, noon)[0].Message; len(got) > mostMessage || len(got) < mostMessage-4 || !utf8.ValidString(got) {
			t.Errorf("%d bytes", len(got))
		}
	})
	t.Run("the cloud's own Retry-After counts when it is longer", func(t *testing.T) {
		patient := *quota
		patient.RetryAfter = time.Hour
		if list := withFailure(nil, small, &patient, noon); !list[0].Until.Time.Equal(noon.Add(time.Hour)) {
			t.Errorf("%+v", list)
		}
	})
	t.Run("CAPI-22 another flavor, another zone, a newer template and a raised quota are tried at once", func(t *testing.T) {
		list := withFailure(nil, small, quota, noon)
		for name, a := range map[string]asked{
			"flavor": {flavor: "large", zone: "a", revision: 3}, "zone": {flavor: "small", zone: "b", revision: 3}, "template": {flavor: "small", zone: "a", revision: 4},
		} {
			if standing(list, a, time.Time{}) != nil {
				t.Errorf("another %s is held back", name)
			}
		}
		if standing(list, small, noon.Add(time.Second)) != nil {
			t.Error("a raised quota does not count")
		}
		if standing(list, small, noon) == nil || standing(list, asked{flavor: "small", zone: "a", revision: 2}, time.Time{}) == nil {
			t.Error("the same request is let through")
		}
	})
	t.Run("an older template that fails does not shorten the wait of a newer one", func(t *testing.T) {
		list, last := failing(3, small, quota)
		old := withFailure(list, asked{flavor: "small", zone: "a", revision: 1}, quota, last.Add(time.Hour/2))
		if old[0].Step != 4 || old[0].Revision != 3 {
			t.Errorf("%+v", old)
		}
	})
	t.Run("one success ends what it disproves, and nothing else", func(t *testing.T) {
		list := withFailure(withFailure(nil, small, quota, noon), asked{flavor: "large", zone: "a", revision: 3}, quota, noon)
		for _, tt := range []struct {
			name      string
			made, now time.Time
			left      int
		}{
			{"a server that was asked for before the failure", noon.Add(-time.Second), noon.Add(time.Second), 2},
			{"a server that was asked for after it", noon.Add(time.Second), noon.Add(2 * time.Second), 1},
			{"an unknown one while the wait runs", time.Time{}, noon.Add(time.Second), 2},
			{"an unknown one once it is over", time.Time{}, noon.Add(time.Minute), 1},
		} {
			if got := withSuccess(list, small, tt.made, tt.now); len(got) != tt.left {
				t.Errorf("%s: %d left, want %d", tt.name, len(got), tt.left)
			}
		}
	})
	t.Run("servers that fail", func(t *testing.T) {
		died := func(server string) asked {
			return asked{flavor: "small", zone: "a", revision: 3, server: server}
		}
		odd, other := fault.New(fault.Unknown, fault.CodeUnknown, "on fire"), fault.New(fault.Transient, fault.CodeServerError, "no network")
		one := withFailure(nil, died("1"), odd, noon)
		if standing(one, small, time.Time{}) != nil {
			t.Error("one failed server holds the group back (F-50)")
		}
		if again := withFailure(one, died("1"), odd, noon.Add(time.Second)); again[0] != one[0] {
			t.Errorf("the same server is counted twice (F-50): %+v", again)
		}
		two := withFailure(one, died("2"), other, noon.Add(time.Second))
		if e := standing(two, small, time.Time{}); e == nil || e.Step != 2 || e.Until.Sub(noon.Add(time.Second)) != 30*time.Second || e.Message != "no network" {
			t.Errorf("the second does not, for 30 s (F-50): %+v", two)
		}
		between := withFailure(withSuccess(one, small, time.Time{}, noon.Add(time.Second)), died("2"), odd, noon.Add(2*time.Second))
		if standing(between, small, time.Time{}) != nil {
			t.Error("a server that has become ACTIVE in between does not end the row (F-50)")
		}
	})
	t.Run("the list is bounded", func(t *testing.T) {
		var list []v1alpha1.GroupBackoff
		for i := range 2 * mostShortages {
			list = withFailure(list, asked{flavor: fmt.Sprint(i)}, quota, noon.Add(time.Duration(i)*time.Second))
		}
		if len(list) != mostShortages || standing(list, asked{flavor: "127"}, time.Time{}) == nil {
			t.Errorf("%d entries", len(list))
		}
	})
	t.Run("what is over for an hour is forgotten", func(t *testing.T) {
		list := withFailure(withFailure(nil, small, quota, noon), asked{flavor: "large"}, quota, noon.Add(2*time.Hour))
		if len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

func TestJoins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string
		well   bool
		nodes  int
		after  string
		slow   bool
	}{
		{"a healthy group remembers nothing", "", true, 5, "", false},
		{"CAPI-26 the first failure of a group without nodes slows it down", "", false, 0, "f", true},
		{"CAPI-26 nodes that there are count as joins", "", false, 3, "jjjf", false},
		{"CAPI-26 half is enough", "jf", false, 0, "jff", true},
		{"CAPI-26 a probe that joins sets the group free", "f", true, 0, "fj", true},
		{"CAPI-26 two do", "fj", true, 0, "fjj", false},
		{"only ten are remembered", "fjjjjjjjjj", true, 0, "", false},
		{"a large group does not remember more", "", false, 500, "jjjjjjjjjf", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := withJoin(tt.before, tt.well, tt.nodes)
			if after != tt.after || joinsFail(after) != tt.slow {
				t.Errorf("%q, slow %v", after, joinsFail(after))
			}
		})
	}
}

func TestLedger(t *testing.T) {
	deployment := &v1alpha1.MachineDeployment{}
	deployment.UID = "d"
	g := group{holder: deployment, set: "s", revision: 3}
	one, two := &v1alpha1.Machine{}, &v1alpha1.Machine{}
	one.UID, one.Name, two.UID, two.Name = "1", "one", "2", "two"
	woken := map[string]int{}
	fresh := func() *ledger {
		l := newLedger()
		clear(woken)
		l.wake = func(key types.NamespacedName) { woken[key.Name]++ }
		return l
	}
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

	t.Run("CAPI-22 while the wait runs nobody tries, then one for all", func(t *testing.T) {
		l := fresh()
		l.failed(g, one, small, quota, noon)
		if a := l.admit(g, two, small, time.Time{}, at(29)); a.free || a.shortage == nil || !a.again.Equal(at(30)) {
			t.Errorf("before: %+v", a)
		}
		if a := l.admit(g, two, small, time.Time{}, at(30)); !a.free {
			t.Errorf("the first one after: %+v", a)
		}
		if a := l.admit(g, one, small, time.Time{}, at(30)); a.free || a.shortage == nil {
			t.Errorf("the second one: %+v", a)
		}
		l.failed(g, two, small, quota, at(31))
		if a := l.admit(g, one, small, time.Time{}, at(31)); a.free || !a.again.Equal(at(91)) || woken["one"] != 1 {
			t.Errorf("after another failure: %+v, woken %v", a, woken)
		}
	})
	t.Run("its success sets all free and wakes them", func(t *testing.T) {
		l := fresh()
		l.failed(g, one, small, quota, noon)
		l.admit(g, two, small, time.Time{}, at(30))
		l.admit(g, one, small, time.Time{}, at(30))
		l.made(g, two, at(31))
		if !l.succeeded(g, two, small, at(40)) || woken["one"] != 1 || !l.admit(g, one, small, time.Time{}, at(40)).free {
			t.Errorf("woken %v", woken)
		}
	})
	t.Run("one that goes, or fails for a reason of its own, makes room for the next", func(t *testing.T) {
		for _, end := range []func(*ledger){func(l *ledger) { l.yield("2") }, func(l *ledger) { l.leave("2") }} {
			l := fresh()
			l.failed(g, one, small, quota, noon)
			l.admit(g, two, small, time.Time{}, at(30))
			l.admit(g, one, small, time.Time{}, at(30))
			end(l)
			if woken["one"] != 1 || !l.admit(g, one, small, time.Time{}, at(31)).free {
				t.Errorf("woken %v", woken)
			}
		}
	})
	t.Run("one that never ends does not hold up the others for ever", func(t *testing.T) {
		l := fresh()
		l.failed(g, one, small, quota, noon)
		l.admit(g, two, small, time.Time{}, at(30))
		if a := l.admit(g, one, small, time.Time{}, at(30+int(probeLife.Seconds()))); !a.free {
			t.Errorf("%+v", a)
		}
	})
	t.Run("CAPI-26 while joins keep failing one at a time is tried, until enough have come", func(t *testing.T) {
		l := fresh()
		l.joined(g, one, false, 0)
		if a, b := l.admit(g, one, small, time.Time{}, noon), l.admit(g, two, small, time.Time{}, noon); !a.free || b.free || !b.slow {
			t.Errorf("%+v, %+v", a, b)
		}
		l.joined(g, one, true, 0)
		if a := l.admit(g, two, small, time.Time{}, noon); !a.free || woken["two"] != 1 {
			t.Errorf("%+v, woken %v", a, woken)
		}
	})
	t.Run("a fresh process begins with what the status says", func(t *testing.T) {
		known := deployment.DeepCopy()
		known.Status.Backoffs = withFailure(nil, small, quota, noon)
		if a := fresh().admit(group{holder: known}, one, small, time.Time{}, at(1)); a.free || a.shortage.Code != "QuotaExceeded" {
			t.Errorf("%+v", a)
		}
	})
}

func TestConsole(t *testing.T) {
	t.Run("a terminal has nothing to obey", func(t *testing.T) {
		if got := printable("\x1b[31mred\x1b[0m\r\nnext\x00"); got != "[31mred[0m\nnext" {
			t.Errorf("%q", got)
		}
	})
}
