package orphans

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// speaker returns a collector that can only report, and the recorder of its Events.
func speaker(t *testing.T) (*Collector, *events.FakeRecorder) {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	said := events.NewFakeRecorder(100)
	c := &Collector{Options: Options{Clock: clocktesting.NewFakeClock(time.Now())}, control: said, target: said, metrics: m, told: map[string]string{}}
	return c, said
}

func TestEventsAboutOrphansAreRepeatedOnlyForANewReason(t *testing.T) {
	c, said := speaker(t)
	pass := func(message string, reason verdict.Reason, projects ...string) int {
		v := verdict.Verdict{Judged: true, Stops: []verdict.Stop{{Reason: reason, Message: message}}}
		for _, name := range projects {
			v.Skipped = append(v.Skipped, verdict.Stop{Reason: verdict.Incomplete, Message: name})
		}
		for _, id := range []string{"a", "b"} {
			v.Orphans = append(v.Orphans, verdict.Orphan{Kind: "server", ID: id, Machine: types.UID(id), Why: "only reported: " + message, Stopped: reason})
		}
		before := len(said.Events)
		c.announce(t.Context(), &v)
		return len(said.Events) - before
	}
	for _, step := range []struct {
		name, message string
		reason        verdict.Reason
		projects      []string
		want          int
	}{
		{"the first round records one Event that a check has stopped the deletion of orphans, and one for each of two orphans (CAPI-59)", "11 of 100 servers", verdict.TooMany, nil, 3},
		{"no Event is repeated when only a number in the message changes (CAPI-59)", "12 of 101 servers", verdict.TooMany, nil, 0},
		{"all Events are repeated when the reason changes (CAPI-59)", "a list is older", verdict.Older, nil, 3},
		{"two projects in which the deletion is stopped for the same reason cause only one Event (CAPI-59)", "a list is older", verdict.Older, []string{"p", "q"}, 1},
		{"no Event is repeated while the reason stays the same (CAPI-59)", "a list is older", verdict.Older, []string{"p", "q"}, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			if got := pass(step.message, step.reason, step.projects...); got != step.want {
				t.Errorf("made %d", got)
			}
		})
	}
}

func TestARoundThatFindsManyOrphansRecordsFewEvents(t *testing.T) {
	c, said := speaker(t)
	c.Namespace = "drover"
	v := verdict.Verdict{Judged: true}
	for i := range 10_000 {
		v.Orphans = append(v.Orphans, verdict.Orphan{Kind: "port", ID: strconv.Itoa(i), Why: "only reported"})
	}
	c.announce(t.Context(), &v)
	c.endRound()
	if got := len(said.Events); got != mostEvents+1 {
		t.Fatalf("10 000 orphans cause %d Events, want %d and one for the others (F-144)", got, mostEvents)
	}
	var last string
	for len(said.Events) > 0 {
		last = <-said.Events
	}
	if !strings.Contains(last, "9980 further reports") || !strings.Contains(last, "drover/drover-orphans") {
		t.Errorf("the last Event does not say how many more there are, and where: %s", last)
	}
	c.announce(t.Context(), &v)
	if c.endRound(); len(said.Events) != 0 {
		t.Errorf("the next round repeats %d Events", len(said.Events))
	}
}
