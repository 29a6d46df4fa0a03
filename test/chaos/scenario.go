package chaos

import (
	"slices"
	"time"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/chaos/world"
	sim "github.com/drover-project/drover/test/openstack"
)

// Scenario is what happens in a run besides the fault.
type Scenario struct {
	Name string
	// world says what is special about the world; before is called before drover starts, and each every second.
	world  world.Options
	before func(*harness) error
	each   func(*harness)
	// stale: the first process does not die at the fault point.
	stale *process.StaleLeader
	// holdBack is how long the network holds back a create before which the process dies; 0: it never left the process.
	holdBack time.Duration
	// slack is how much longer a run may take in which a call fails: an answer that is lost twice is waited for twice.
	slack time.Duration
	// thin is how many times fewer points are tried than of other scenarios when not all are; 0: as many.
	thin int
	// focus limits the creates that are held back; nil: all are tried.
	focus func(process.Point) bool
	play  func(*harness) error
}

// Scenarios returns all scenarios of the crash test. The first is the plain life of one Machine.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "a Machine is made and deleted", play: (*harness).oneMachine},
		{Name: "answers of the cloud get lost", before: loseAnswers, slack: 3 * time.Minute, play: (*harness).oneMachine},
		{Name: "the first server fails", each: failFirst, play: (*harness).oneMachine},
		{Name: "a set grows, loses a server, shrinks and is deleted", play: (*harness).oneSet},
		{Name: "lists lag", before: lagLists, play: (*harness).oneMachine},
		{Name: "a budget forbids the eviction, and then the volume is detached late", world: world.Options{PodVolume: true}, play: (*harness).oneMachine},
		{Name: "the old process goes on without its lease", stale: &process.StaleLeader{}, play: (*harness).oneMachine},
		{Name: "the old process stands still and goes on", stale: &process.StaleLeader{Pause: 20 * time.Second}, world: world.Options{LateCreates: true}, play: (*harness).oneMachine},
		{Name: "a set, and the old process goes on", stale: &process.StaleLeader{}, play: (*harness).oneSet},
		{Name: "the network holds a create back (F-21)", holdBack: 23 * time.Second, world: world.Options{LateCreates: true}, play: (*harness).oneMachine},
		{Name: "the ConfigMap and the Cluster that the spec needs are deleted with the Machine, and the answer to a create is lost (F-17)", before: loseServerAnswer, slack: withoutReferences + time.Minute, play: (*harness).referencesGo},
		{Name: "the server is shut down by somebody else", slack: 3 * time.Minute, play: (*harness).serverShutDown},
		{Name: "two of three Machines of a set become unhealthy", thin: 10, world: world.Options{Safety: true}, slack: 4 * time.Minute, play: (*harness).twoUnhealthy},
		{Name: "a Machine is taken away from its server and its Node", thin: 10, world: world.Options{Safety: true}, slack: orphanSlack, play: (*harness).oneOrphan},
		{Name: "what a create made that the network held back is collected", holdBack: 23 * time.Second, focus: isOfSecond, world: world.Options{Safety: true, LateCreates: true}, slack: orphanSlack, play: (*harness).lateCreate},
	}
}

// FailureScenarios returns the scenarios in which calls fail: those without a stale leader and without a create that is held back,
// which are about crashes.
func FailureScenarios() []Scenario {
	scenarios := slices.DeleteFunc(Scenarios(), func(s Scenario) bool { return s.stale != nil || s.holdBack > 0 })
	return append(scenarios,
		Scenario{Name: "a deletion is forced (F-25)", world: world.Options{Forced: true}, play: (*harness).forcedDeletion},
		Scenario{Name: "the first server of a set fails (F-24)", each: failFirst, play: (*harness).setWithFailure})
}

// WatchScenarios returns the scenarios in which watches are in trouble: those of failing calls, and rollouts.
func WatchScenarios() []Scenario {
	return append(FailureScenarios(),
		Scenario{Name: "a Machine is deleted when its Node has just registered", play: (*harness).deletedAtOnce},
		Scenario{Name: "a deployment rolls with a surge", play: (*harness).rollWithSurge},
		Scenario{Name: "a deployment rolls without a surge, loses a named Machine and grows", play: (*harness).rollWithoutSurge})
}

// OnlyDeletion reports whether a scenario is about calls that fail once a Machine is being deleted.
func (s Scenario) OnlyDeletion() bool { return s.world.Forced }

// FocusPoints returns the fault points that a scenario is about; nil: all alike.
func (s Scenario) FocusPoints(points []process.Point) []process.Point {
	if s.holdBack == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(points), func(p process.Point) bool {
		return p.After || !calls.IsCreate(p.Call) || s.focus != nil && !s.focus(p)
	})
}

// Stride returns every how many points of the scenario are tried, where every nth of other scenarios is.
func (s Scenario) Stride(n int) int {
	if n == 1 || s.thin == 0 {
		return n
	}
	return n * s.thin
}

// loseAnswers carries the first create of each kind out and cuts the connection instead of answering.
func loseAnswers(h *harness) error {
	for _, call := range []string{"POST /ports", "POST /floatingips", "POST /servers"} {
		h.Cloud.Inject(sim.Fault{Call: call, Drop: true, Times: 1})
	}
	return nil
}

// lagLists makes lists of servers show what was there five seconds ago.
func lagLists(h *harness) error {
	h.Cloud.SetListLag(5 * time.Second)
	return nil
}

// failFirst puts the first server of ours that is seen building into ERROR.
func failFirst(h *harness) {
	servers := h.Ours().Servers
	if h.failed != "" || len(servers) == 0 {
		return
	}
	if s, _ := h.Cloud.Server(servers[0]); s.Status == "BUILD" && h.Cloud.FailServer(servers[0], "No valid host was found. There are not enough hosts available.") {
		h.failed = servers[0]
	}
}
