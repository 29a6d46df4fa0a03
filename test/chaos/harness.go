package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/chaos/schedule"
	"github.com/drover-project/drover/test/chaos/world"
)

const (
	// patience is how much virtual time a goal may take, including crashes.
	patience = time.Hour
	// checkAnyway is how many seconds may pass without a check of the goal while nothing changes in the cluster.
	checkAnyway = 10
	// mostCalls is many more calls than a process needs for a scenario. A process that makes more calls is caught in a
	// loop.
	mostCalls = 2000
	// staleLife is how long a stale leader keeps running after another process has taken over.
	staleLife = time.Minute
	// mostStarts is how often the harness restarts a process that ended with an error.
	mostStarts = 10
)

// harness holds the state of a run: the world, and the process that currently is drover.
type harness struct {
	*world.World
	run     Run
	process *process.Process
	crashes int
	calls   []process.Point
	// random determines how long no process runs after a crash.
	random *rand.Rand
	// failed is the ID of the server that the scenario put into ERROR.
	failed string
	// heldBack is true when a create call arrives at the cloud after the death of the process that sent it.
	heldBack bool
	// deleting is the number of calls that drover made before the first Machine was deleted. end is the time at which the run
	// ended.
	deleting   int
	start, end time.Time
	// healed is the time at which a lasting failure was ended, or zero if none was.
	healed time.Time
	// stale is the leader that lost its lease and continued, or nil if there is none.
	stale *process.Process
	// listsEnd is when the disturbance of the lists of servers ends; zero before it begins and after its end. endLists ends it.
	listsEnd time.Time
	endLists func()
	// confirmed is true when an operator had to confirm the deletion of orphans.
	confirmed bool
	// forced is true once a Machine is deleted by force. From then on the harness ends no lasting failure, because a
	// forced deletion must not wait for the end of a failure.
	forced bool
}

// running waits until n Machines run, and checks the invariants.
func (h *harness) running(n int) error {
	goal := fmt.Sprintf("%d Machines run", n)
	if err := h.until(goal, func() (bool, error) { return h.areRunning(n) }); err != nil {
		return err
	}
	if err := h.CheckServers(n); err != nil {
		return fmt.Errorf("after the goal %q: %w", goal, err)
	}
	return nil
}

// ended waits until no Machine is left. It then checks that no resources of Machines are left, and that the number of
// created servers is at least made and at most made+spare.
func (h *harness) ended(made, spare int) error {
	var since time.Time
	err := h.until("no Machine is left", func() (bool, error) {
		machines, err := h.Machines()
		if err != nil || len(machines) > 0 {
			since = time.Time{}
			return false, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		// Wait a little longer: drover's calls after the deletion of the last Machine belong to the run, also calls that a late
		// watch event causes.
		return time.Since(since) >= checkAnyway*time.Second/2+h.settleTime(), nil
	})
	if err != nil {
		return err
	}
	h.recordCalls()
	for _, err := range []error{h.CheckEnd(), h.CheckCreates(made, spare)} {
		if err != nil {
			return fmt.Errorf("after the last Machine is gone: %w", err)
		}
	}
	return nil
}

// until waits until a goal is reached, checking once a second of virtual time, and replaces a process that has ended.
func (h *harness) until(goal string, reached func() (bool, error)) error {
	start := time.Now()
	seen := uint64(0)
	for looks := 0; ; looks++ {
		// Like every call, the check waits until the scheduler releases it, so that it sees the same state in each repetition of
		// the run.
		if err := h.Scheduler.Await(h.Context, "harness", schedule.Alone); err != nil {
			return err
		}
		if err := h.replaceDead(); err != nil {
			return err
		}
		if h.run.Scenario.everySecond != nil {
			h.run.Scenario.everySecond(h)
		}
		h.endListsInTime()
		if now := h.Kube.Revision(); now != seen || looks%checkAnyway == 0 {
			seen = now
			if ok, err := reached(); err != nil || ok {
				return err
			}
		}
		if n := len(h.process.Calls()); n > mostCalls {
			return fmt.Errorf("the process made %d calls without reaching the goal: %s\n%s", n, goal, h.describe())
		}
		if err := h.healStuck(start); err != nil {
			return fmt.Errorf("waiting until %s: %w", goal, err)
		}
		if limit := h.timeLimit(); limit > 0 && time.Since(h.start) > limit {
			return fmt.Errorf("goal not reached %v after the start: %s\n%s", limit, goal, h.describe())
		}
		if time.Since(start) > patience {
			return fmt.Errorf("goal not reached within %v: %s\n%s", patience, goal, h.describe())
		}
		time.Sleep(time.Second)
	}
}

// replaceDead replaces a process that has ended. It also restarts a process that ended with an error because a call failed while it
// started.
func (h *harness) replaceDead() error {
	over, err := h.process.Over()
	if !over {
		return nil
	}
	if err != nil && (h.run.Failing == nil || h.crashes >= mostStarts) {
		return err
	}
	h.replace()
	return nil
}

// recordDeletion records that a Machine is about to be deleted.
func (h *harness) recordDeletion() {
	h.RecordDeletion()
	if h.deleting == 0 {
		h.deleting = len(h.process.Calls())
	}
}

// recordCalls stores in h.calls the calls that the first drover process has made so far. Later calls of recordCalls do nothing.
func (h *harness) recordCalls() {
	if h.calls == nil {
		h.calls = h.process.Calls()
	}
}

// replace stops a dead process, and starts a new one after a while in which no process runs. A stale leader keeps
// running in parallel with the new process for staleLife.
func (h *harness) replace() {
	h.crashes++
	h.recordCalls()
	h.heldBack = h.heldBack || h.process.HeldBack()
	h.disturbLists(true)
	if old := h.process; old.Dead() || old.Ended() {
		old.Stop()
		alone := []time.Duration{0, 3 * time.Second, 2 * time.Minute}[h.random.IntN(3)]
		if h.heldBack {
			// Start the new process only when the lease of the old one has ended. Then the new process creates its own server at
			// about the time at which the delayed create call of the old process arrives.
			alone = process.LeaseLife
		}
		time.Sleep(alone)
	} else {
		h.stale = old
		h.Go(func() {
			schedule.Sleep(h.Context, old.Pause()+staleLife)
			old.Stop()
		})
		time.Sleep(time.Until(old.LeaseEnds()))
	}
	next := process.Options{Failing: h.run.Failing}
	if h.crashes == 1 {
		next.Calls = h.run.Again
	}
	h.process = process.Start(h.World, next)
}

// areRunning reports whether there are n Machines, each with its own Ready Node without the startup taint.
func (h *harness) areRunning(n int) (bool, error) {
	machines, err := h.Machines()
	if err != nil || len(machines) != n {
		return false, err
	}
	for i := range machines {
		if ok, err := h.isRunning(&machines[i]); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (h *harness) isRunning(m *v1alpha1.Machine) (bool, error) {
	if m.DeletionTimestamp != nil || m.Status.Phase == nil || *m.Status.Phase != v1alpha1.PhaseRunning || m.Status.NodeRef == nil {
		return false, nil
	}
	var n corev1.Node
	if err := h.Admin.Get(h.Context, types.NamespacedName{Name: m.Status.NodeRef.Name}, &n); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	started := !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint })
	return started && n.Annotations[v1alpha1.AnnotationOwnedBy] == string(m.UID), nil
}

// describe returns the state of the Machines, the cloud and the last calls, to be read when a run fails.
func (h *harness) describe() string {
	var b strings.Builder
	machines, _ := h.Machines()
	for _, m := range machines {
		fmt.Fprintf(&b, "Machine %s of %v: finalizers %v, deletion %v, provider ID %s\n",
			m.Name, m.OwnerReferences, m.Finalizers, m.DeletionTimestamp, ptr.Deref(m.Spec.ProviderID, ""))
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, "  %s=%s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	fmt.Fprintf(&b, "in the cloud: %+v\n", h.Ours())
	for _, call := range h.Cloud.Calls() {
		if call.Method != http.MethodGet {
			fmt.Fprintf(&b, "  %s %s %s: %d\n", call.Time.UTC().Format("15:04:05.000"), call.Method, call.Path, call.Status)
		}
	}
	calls := h.process.Calls()
	for _, call := range calls[max(0, len(calls)-15):] {
		fmt.Fprintf(&b, "  last calls: %s #%d\n", call.Call, call.Nth)
	}
	return b.String()
}
