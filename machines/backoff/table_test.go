package backoff

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
	small = Attempt{Flavor: "small", Zone: "a", Revision: 3}
)

func machineNamed(name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func failing(times int, a Attempt, err *fault.Error) (list []v1alpha1.GroupBackoff, last time.Time) {
	last = noon
	for i := range times {
		if i > 0 {
			last = list[0].Until.Time
		}
		list = withFailure(list, a, err, last)
	}
	return list, last
}

func TestAGroupWaitsAfterFailedCreationsOfServers(t *testing.T) {
	t.Run("the wait doubles with each failure for lack of capacity, from 30 seconds to 5 minutes (MCM-38)", func(t *testing.T) {
		for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
			list, last := failing(i+1, small, quota)
			if got := list[0].Until.Sub(last); got != want || len(list) != 1 || list[0].Step != int32(i+1) || !list[0].Since.Time.Equal(noon) {
				t.Errorf("failure %d: waits %v, want %v; %+v", i+1, got, want, list)
			}
		}
	})
	t.Run("a second failure during the wait does not make the wait longer", func(t *testing.T) {
		list := withFailure(nil, small, quota, noon)
		if again := withFailure(list, small, quota, noon.Add(29*time.Second)); again[0] != list[0] {
			t.Errorf("%+v", again)
		}
	})
	t.Run("the message of a waiting Machine names the other Machine of its group that reported the failure (F-27)", func(t *testing.T) {
		reporter := Attempt{Flavor: "small", Zone: "a", Machine: types.NamespacedName{Namespace: "ns", Name: "nodes-x"}}
		list := withFailure(nil, reporter, fault.New(fault.Quota, fault.CodeQuotaExceeded, "creating server nodes-x: no more cores"), noon)
		if got := FailureFor(&list[0], machineNamed("nodes-x")).Message; got != "creating server nodes-x: no more cores" {
			t.Errorf("FailureFor() of the reporter has the message %q, want its own", got)
		}
		want := "Machine nodes-x of the same group reported: creating server nodes-x: no more cores"
		if got := FailureFor(&list[0], machineNamed("nodes-y")).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("the message of a back-off is cut to the length that the CRD's schema allows (F-45)", func(t *testing.T) {
		long := fault.New(fault.Quota, fault.CodeQuotaExceeded, "%s", strings.Repeat("ä", 2000))
		if got := withFailure(nil, small, long, noon)[0].Message; len(got) > maxMessage || len(got) < maxMessage-4 || !utf8.ValidString(got) {
			t.Errorf("the message has %d bytes, want %d at most and whole characters", len(got), maxMessage)
		}
	})
	t.Run("a failure's long message stays complete for the Machine that reported it, and is cut for other Machines of its group (F-45)", func(t *testing.T) {
		long := fault.New(fault.Quota, fault.CodeQuotaExceeded, "%s", "no more cores; "+strings.Repeat("ä", 2000))
		reporter, other := machineNamed("nodes-x"), machineNamed("nodes-y")
		reporter.Status.ErrorMessage, other.Status.ErrorMessage = &long.Message, &long.Message
		list := withFailure(nil, Attempt{Flavor: "small", Zone: "a", Machine: types.NamespacedName{Namespace: "ns", Name: "nodes-x"}}, long, noon)
		if got := FailureFor(&list[0], reporter).Message; got != long.Message {
			t.Errorf("FailureFor() of the reporter has the message %q, want the complete one", got)
		}
		if got, want := FailureFor(&list[0], other).Message, list[0].MessageFor("nodes-y"); got != want {
			t.Errorf("FailureFor() of another Machine has the message %q, want %q", got, want)
		}
		earlier := "no network found"
		reporter.Status.ErrorMessage = &earlier
		if got, want := FailureFor(&list[0], reporter).Message, list[0].Message; got != want {
			t.Errorf("FailureFor() of the reporter with an earlier error in its status has the message %q, want %q", got, want)
		}
	})
	t.Run("the wait is the cloud's Retry-After when that is longer than the computed wait", func(t *testing.T) {
		patient := *quota
		patient.RetryAfter = time.Hour
		if list := withFailure(nil, small, &patient, noon); !list[0].Until.Time.Equal(noon.Add(time.Hour)) {
			t.Errorf("%+v", list)
		}
	})
	t.Run("after a failure, only Machines with the same flavor and zone and no newer template wait, until the quota is raised (CAPI-22)", func(t *testing.T) {
		list := withFailure(nil, small, quota, noon)
		for name, a := range map[string]Attempt{
			"flavor": {Flavor: "large", Zone: "a", Revision: 3}, "zone": {Flavor: "small", Zone: "b", Revision: 3}, "template": {Flavor: "small", Zone: "a", Revision: 4},
		} {
			if activeFor(list, a, time.Time{}) != nil {
				t.Errorf("another %s has to wait", name)
			}
		}
		if activeFor(list, small, noon.Add(time.Second)) != nil {
			t.Error("the attempt waits although the quota was raised")
		}
		if activeFor(list, small, noon) == nil || activeFor(list, Attempt{Flavor: "small", Zone: "a", Revision: 2}, time.Time{}) == nil {
			t.Error("the same request does not wait")
		}
	})
	t.Run("an older template's failure prolongs a newer template's existing back-off, because both request the same flavor and zone", func(t *testing.T) {
		list, last := failing(3, small, quota)
		old := withFailure(list, Attempt{Flavor: "small", Zone: "a", Revision: 1}, quota, last.Add(time.Hour/2))
		if old[0].Step != 4 || old[0].Revision != 3 {
			t.Errorf("%+v", old)
		}
	})
	t.Run("an ACTIVE server ends only its own flavor's back-off, and ends none when it was requested before the failure", func(t *testing.T) {
		list := withFailure(withFailure(nil, small, quota, noon), Attempt{Flavor: "large", Zone: "a", Revision: 3}, quota, noon)
		for _, tt := range []struct {
			name      string
			made, now time.Time
			left      int
		}{
			{"an ACTIVE server that was requested before the failure ends no back-off", noon.Add(-time.Second), noon.Add(time.Second), 2},
			{"an ACTIVE server that was requested after the failure ends the back-off of its flavor", noon.Add(time.Second), noon.Add(2 * time.Second), 1},
			{"an ACTIVE server that was requested at an unknown time ends no back-off during the wait", time.Time{}, noon.Add(time.Second), 2},
			{"an ACTIVE server that was requested at an unknown time ends the back-off of its flavor after the wait", time.Time{}, noon.Add(time.Minute), 1},
		} {
			if got := withSuccess(list, small, tt.made, tt.now); len(got) != tt.left {
				t.Errorf("%s: %d left, want %d", tt.name, len(got), tt.left)
			}
		}
	})
	t.Run("errors other than lack of capacity make a group wait only when two servers in a row fail (F-50)", func(t *testing.T) {
		died := func(server string) Attempt {
			return Attempt{Flavor: "small", Zone: "a", Revision: 3, Server: server}
		}
		odd, other := fault.New(fault.Unknown, fault.CodeUnknown, "on fire"), fault.New(fault.Transient, fault.CodeServerError, "no network")
		one := withFailure(nil, died("1"), odd, noon)
		if activeFor(one, small, time.Time{}) != nil {
			t.Error("one failed server makes the group wait (F-50)")
		}
		if again := withFailure(one, died("1"), odd, noon.Add(time.Second)); again[0] != one[0] {
			t.Errorf("the same server is counted twice (F-50): %+v", again)
		}
		two := withFailure(one, died("2"), other, noon.Add(time.Second))
		if e := activeFor(two, small, time.Time{}); e == nil || e.Step != 2 || e.Until.Sub(noon.Add(time.Second)) != 30*time.Second || e.Message != "no network" {
			t.Errorf("the second failed server does not make the group wait for 30 s (F-50): %+v", two)
		}
		between := withFailure(withSuccess(one, small, time.Time{}, noon.Add(time.Second)), died("2"), odd, noon.Add(2*time.Second))
		if activeFor(between, small, time.Time{}) != nil {
			t.Error("a server that became ACTIVE in between does not end the row (F-50)")
		}
	})
	t.Run("a group's list has at most 64 back-offs, and a new back-off takes the place of the oldest one", func(t *testing.T) {
		var list []v1alpha1.GroupBackoff
		for i := range 2 * maxBackoffs {
			list = withFailure(list, Attempt{Flavor: fmt.Sprint(i)}, quota, noon.Add(time.Duration(i)*time.Second))
		}
		if len(list) != maxBackoffs || activeFor(list, Attempt{Flavor: "127"}, time.Time{}) == nil {
			t.Errorf("%d entries", len(list))
		}
	})
	t.Run("a back-off whose wait ended more than an hour ago is dropped from the group's list", func(t *testing.T) {
		list := withFailure(withFailure(nil, small, quota, noon), Attempt{Flavor: "large"}, quota, noon.Add(2*time.Hour))
		if len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}
