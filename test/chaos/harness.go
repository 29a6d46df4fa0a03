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
	// patience is how much virtual time a goal may take, crash and all.
	patience = time.Hour
	// lookAnyway is how many seconds a goal is not looked at while nothing changes in the cluster.
	lookAnyway = 10
	// mostCalls are many more than a process needs for a scenario: one that makes them goes round in circles.
	mostCalls = 2000
	// staleLife is how long a process goes on that has lost its lease and does not know it.
	staleLife = time.Minute
	// mostStarts is how often a process may be started again that ended by itself.
	mostStarts = 10
)

// harness is a run while it is played: the world, and the process that does drover's work now.
type harness struct {
	*world.World
	run     Run
	process *process.Process
	crashes int
	calls   []process.Point
	// random decides how long the world is alone after a crash.
	random *rand.Rand
	// failed is the server that was made to fail.
	failed string
	// heldBack: a create arrives, or arrived, after its process's death.
	heldBack bool
	// deleting is how many calls had been made when the first Machine was deleted, end when the run ended.
	deleting   int
	start, end time.Time
	// healed is when a lasting failure was ended; zero: none was.
	healed time.Time
	// confirmed: an operator had to confirm that orphans may be deleted.
	confirmed bool
	// forced: no lasting failure is ended any more, since a forced deletion does not wait for that.
	forced bool
}

// running waits until n Machines run, and checks the invariants.
func (h *harness) running(n int) error {
	goal := fmt.Sprintf("%d Machines run", n)
	if err := h.until(goal, func() (bool, error) { return h.areRunning(n) }); err != nil {
		return err
	}
	if err := h.CheckServers(n); err != nil {
		return fmt.Errorf("once %s: %w", goal, err)
	}
	return nil
}

// ended waits until no Machine is left, and checks what is left of them, and that made servers were made, spare more at most.
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
		// What is still done after the last Machine is part of the scenario, also once the last watch shows it.
		return time.Since(since) >= lookAnyway*time.Second/2+h.settle(), nil
	})
	if err != nil {
		return err
	}
	h.keepCalls()
	for _, err := range []error{h.CheckEnd(), h.CheckCreates(made, spare)} {
		if err != nil {
			return fmt.Errorf("once no Machine is left: %w", err)
		}
	}
	return nil
}

// until lets time pass until a goal is reached, and has a dead process followed by a fresh one.
func (h *harness) until(goal string, reached func() (bool, error)) error {
	start := time.Now()
	seen := uint64(0)
	for looks := 0; ; looks++ {
		// A look takes its turn like any call, so that it sees the same in every repetition.
		if err := h.Scheduler.Await(h.Context, "judge", schedule.Alone); err != nil {
			return err
		}
		if err := h.attend(); err != nil {
			return err
		}
		if h.run.Scenario.each != nil {
			h.run.Scenario.each(h)
		}
		if now := h.Kube.Revision(); now != seen || looks%lookAnyway == 0 {
			seen = now
			if ok, err := reached(); err != nil || ok {
				return err
			}
		}
		if n := len(h.process.Calls()); n > mostCalls {
			return fmt.Errorf("%d calls were made for: %s\n%s", n, goal, h.describe())
		}
		if err := h.healStuck(start); err != nil {
			return fmt.Errorf("waiting until %s: %w", goal, err)
		}
		if limit := h.limit(); limit > 0 && time.Since(h.start) > limit {
			return fmt.Errorf("not healed %v after the start: %s\n%s", limit, goal, h.describe())
		}
		if time.Since(start) > patience {
			return fmt.Errorf("not reached within %v: %s\n%s", patience, goal, h.describe())
		}
		time.Sleep(time.Second)
	}
}

// attend replaces a process that is over. One that ended by itself, because a call failed while it started, is started again.
func (h *harness) attend() error {
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

// leave notes that a Machine is about to be deleted.
func (h *harness) leave() {
	h.Leave()
	if h.deleting == 0 {
		h.deleting = len(h.process.Calls())
	}
}

// keepCalls keeps the calls of the first process.
func (h *harness) keepCalls() {
	if h.calls == nil {
		h.calls = h.process.Calls()
	}
}

// replace removes a dead process and, after a while in which the world goes on alone, starts a fresh one. A process that has only
// lost its lease goes on beside it for a while.
func (h *harness) replace() {
	h.crashes++
	h.keepCalls()
	h.heldBack = h.heldBack || h.process.HeldBack()
	led := h.process.Led()
	if old := h.process; old.Dead() || old.Ended() {
		old.Stop()
		alone := []time.Duration{0, 3 * time.Second, 2 * time.Minute}[h.random.IntN(3)]
		if h.heldBack {
			// The successor has to wait for the lease, so that it makes its server when the late create arrives.
			alone = process.LeaseLife
		}
		time.Sleep(alone)
	} else {
		h.Go(func() {
			schedule.Sleep(h.Context, staleLife)
			old.Stop()
		})
		time.Sleep(time.Until(old.LeaseEnds()))
	}
	next := process.Options{Failing: h.run.Failing, LedBefore: led}
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
	return started && n.Labels[v1alpha1.LabelOwnedBy] == string(m.UID), nil
}

// describe returns how things stand, for a person who looks for the cause of a failure.
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
