package chaos

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// stuckAfter is how long a lasting failure may keep a goal from being reached before the harness ends the failure.
	stuckAfter = 6 * time.Minute
	// afterOnce is how much longer than usual a run with one failing call may take. afterLasting is how much longer a
	// run may take after a lasting failure was ended: the longest back-off, and a margin.
	afterOnce    = 3 * time.Minute
	afterLasting = 6 * time.Minute
)

// healStuck ends a lasting failure that has kept a goal from being reached for stuckAfter since start. It returns an
// error when no condition or Event explains the cause.
func (h *harness) healStuck(start time.Time) error {
	failing := h.run.Failing
	if failing == nil || !failing.How.Lasting || h.forced {
		return nil
	}
	begun := failing.Begun()
	if begun.IsZero() || time.Since(begun) < stuckAfter || time.Since(start) < stuckAfter || !failing.Heal() {
		return nil
	}
	h.healed = time.Now()
	return h.checkExplained(failing.How.Cause)
}

// timeLimit returns how long the run may take. 0 means no limit.
func (h *harness) timeLimit() time.Duration {
	switch {
	case h.run.Usual == 0:
		return 0
	case h.run.DisturbedWatch != nil:
		return h.run.Usual + h.extraTime() + h.settleTime() + h.run.Scenario.slack + afterOnce
	case h.run.Failing == nil:
		return 0
	case !h.healed.IsZero():
		return h.healed.Sub(h.start) + h.run.Usual + h.run.Scenario.slack + afterLasting
	case h.run.Failing.How.Lasting:
		return 0
	}
	return h.run.Usual + h.run.Failing.How.Rest + h.run.Scenario.slack + afterOnce
}

// extraTime returns how much longer than usual the run may take because a watch is disturbed.
func (h *harness) extraTime() time.Duration {
	if h.run.DisturbedWatch == nil {
		return 0
	}
	return h.run.DisturbedWatch.How.Rest
}

// settleTime returns the longest time until every watch, also a disturbed one, has delivered a change.
func (h *harness) settleTime() time.Duration {
	if h.run.DisturbedWatch == nil {
		return 0
	}
	return h.run.DisturbedWatch.How.Settle
}

// operation matches the words by which conditions and Events of drover name the operation that failed.
var operation = regexp.MustCompile(`\b(creating|deleting|looking up|listing|signing in|reading|asking|adopting|evictions|are being deleted)\b`)

// checkExplained returns an error unless a condition or an Event names the failing operation and matches cause. It
// returns nil while every Machine runs, because then no Machine waits for the cloud, and only the metrics show the
// failure.
func (h *harness) checkExplained(cause string) error {
	if cause == "" {
		return nil
	}
	machines, err := h.Machines()
	if err != nil {
		return err
	}
	if waits := slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool {
		return m.DeletionTimestamp != nil || ptr.Deref(m.Status.Phase, "") != v1alpha1.PhaseRunning
	}); !waits {
		return nil
	}
	texts, err := h.texts()
	if err != nil {
		return err
	}
	match := regexp.MustCompile(cause)
	for _, text := range texts {
		if match.MatchString(text) && operation.MatchString(text) {
			return nil
		}
	}
	return fmt.Errorf("no condition and no Event names both the operation and the cause (%s):\n%s", cause, strings.Join(texts, "\n"))
}

// texts returns the messages of all conditions and Events.
func (h *harness) texts() (texts []string, err error) {
	var sets v1alpha1.MachineSetList
	var events eventsv1.EventList
	machines, err := h.Machines()
	if err := errors.Join(err, h.Admin.List(h.Context, &sets), h.Admin.List(h.Context, &events)); err != nil {
		return nil, err
	}
	for i := range machines {
		for _, c := range machines[i].Status.Conditions {
			texts = append(texts, fmt.Sprintf("Machine %s: %s=%s %s: %s", machines[i].Name, c.Type, c.Status, c.Reason, c.Message))
		}
	}
	for i := range sets.Items {
		for _, c := range sets.Items[i].Status.Conditions {
			texts = append(texts, fmt.Sprintf("MachineSet %s: %s=%s %s: %s", sets.Items[i].Name, c.Type, c.Status, c.Reason, c.Message))
		}
	}
	for i := range events.Items {
		texts = append(texts, fmt.Sprintf("Event %s: %s", events.Items[i].Reason, events.Items[i].Note))
	}
	return texts, nil
}
