package orphans

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// speaker returns a collector that only reports, and its Events.
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

func TestAnnouncementsAreRepeatedOnlyForANewReason(t *testing.T) {
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
		{"the first announcements name the reason that stops a round, and each orphan (CAPI-59)", "11 of 100 servers", verdict.TooMany, nil, 3},
		{"announcements are not repeated when only a number in the message changes (CAPI-59)", "12 of 101 servers", verdict.TooMany, nil, 0},
		{"announcements are repeated when the reason changes (CAPI-59)", "a list is older", verdict.Older, nil, 3},
		{"several projects with the same reason are announced once (CAPI-59)", "a list is older", verdict.Older, []string{"p", "q"}, 1},
		{"announcements are not repeated while the reason stays the same (CAPI-59)", "a list is older", verdict.Older, []string{"p", "q"}, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			if got := pass(step.message, step.reason, step.projects...); got != step.want {
				t.Errorf("made %d", got)
			}
		})
	}
}
