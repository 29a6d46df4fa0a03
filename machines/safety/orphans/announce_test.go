package orphans

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// speaker returns a collector that can only report, and the recorder of its Events.
func speaker(t *testing.T) (*Collector, *events.FakeRecorder) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	said := events.NewFakeRecorder(100)
	return &Collector{Options: Options{Clock: clocktesting.NewFakeClock(time.Now()), Stale: func() string { return "" }}, control: said, target: said, metrics: m, draining: map[string]string{}}, said
}

// round announces a verdict after the last report, and returns the new report and the number of Events.
func round(t *testing.T, c *Collector, said *events.FakeRecorder, v *verdict.Verdict, last string) (text string, made int) {
	t.Helper()
	before := len(said.Events)
	c.recorded = 0
	report, news := report(v, last)
	c.announce(t.Context(), news)
	return report, len(said.Events) - before
}

func TestEventsAboutOrphansAreNotRepeated(t *testing.T) {
	c, said := speaker(t)
	two := func(why string) (all []verdict.Orphan) {
		for _, id := range []string{"a", "b"} {
			all = append(all, verdict.Orphan{Resource: cloud.Resource{Kind: "server", ID: id, Machine: types.UID(id)}, Why: why})
		}
		return all
	}
	stop := func(reason verdict.Reason, messages ...string) (all []verdict.Stop) {
		for _, m := range messages {
			all = append(all, verdict.Stop{Reason: reason, Message: m})
		}
		return all
	}
	last, made := "", 0
	for _, step := range []struct {
		name string
		v    verdict.Verdict
		want int
	}{
		{"the first round records one Event about a reason, and one for each of two orphans (CAPI-59)", verdict.Verdict{Judged: true, Stops: stop(verdict.Unconfirmed, "p"), Orphans: two("unseen")}, 3},
		{"a round with the same findings records no Event (CAPI-59)", verdict.Verdict{Judged: true, Stops: stop(verdict.Unconfirmed, "p"), Orphans: two("unseen")}, 0},
		{"no Event is repeated when only the message of a reason changes (CAPI-59)", verdict.Verdict{Judged: true, Stops: stop(verdict.Unconfirmed, "q"), Orphans: two("unseen")}, 0},
		{"a round without a decision records its reason (CAPI-59)", verdict.Verdict{Stops: stop(verdict.Stale, "no lease")}, 1},
		{"the next round with a decision does not repeat the orphans (CAPI-59)", verdict.Verdict{Judged: true, Orphans: two("unseen")}, 0},
		{"the Events of all orphans are repeated when their reason changes (CAPI-59)", verdict.Verdict{Judged: true, Orphans: two("young")}, 2},
		{"two projects in which the deletion is stopped for the same reason cause only one Event (CAPI-59)", verdict.Verdict{Judged: true, Stops: stop(verdict.Incomplete, "p", "q"), Orphans: two("young")}, 1},
	} {
		t.Run(step.name, func(t *testing.T) {
			if last, made = round(t, c, said, &step.v, last); made != step.want {
				t.Errorf("made %d", made)
			}
		})
	}
}

func TestARoundThatFindsManyOrphansRecordsFewEvents(t *testing.T) {
	c, said := speaker(t)
	v := verdict.Verdict{Judged: true}
	for i := range 10_000 {
		v.Orphans = append(v.Orphans, verdict.Orphan{Resource: cloud.Resource{Kind: "port", ID: strconv.Itoa(i)}, Why: "only reported"})
	}
	report, made := round(t, c, said, &v, "")
	if made != mostEvents || strings.Count(report, "\n") != mostLines || !strings.HasSuffix(report, "and 9500 more") {
		t.Fatalf("10 000 orphans cause %d Events, want %d, and a report of %d lines (F-144)", made, mostEvents, strings.Count(report, "\n"))
	}
	if _, made := round(t, c, said, &v, report); made != 0 {
		t.Errorf("the next round repeats %d Events", made)
	}
}
