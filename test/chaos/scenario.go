package chaos

import (
	"slices"
	"time"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/chaos/world"
	sim "github.com/drover-project/drover/test/openstack"
)

// Scenario is what users and the cloud do in a run, without the fault.
type Scenario struct {
	Name string
	// world configures the world. before is called before drover starts. everySecond is called once a second during the run.
	world       world.Options
	before      func(*harness) error
	everySecond func(*harness)
	// stale makes the first process lose its lease at the fault point instead of dying.
	stale *process.StaleLeader
	// holdBack delays the create call at the fault point: the process dies when it sends the call, and the call arrives at the
	// cloud this long after the crash. 0 means that the call never arrives.
	holdBack time.Duration
	// slack is how much longer than usual a run with a failing call may take, for example because drover waits twice
	// for a lost response.
	slack time.Duration
	// thinning divides the number of fault points that are tested in this scenario, when not all fault points are tested. 0 means
	// that the number is not divided.
	thinning int
	// focus selects the create calls that are held back. Nil selects all.
	focus  func(process.Point) bool
	script func(*harness) error
}

// Scenarios returns all scenarios of the crash test. The first one creates and deletes one Machine.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "a Machine is created and deleted", script: (*harness).oneMachine},
		{Name: "the cloud's responses to the first create calls are lost", before: loseAnswers, slack: 3 * time.Minute, script: (*harness).oneMachine},
		{Name: "a Machine's first server goes to ERROR, and drover replaces it", everySecond: failFirst, script: (*harness).oneMachine},
		{Name: "a set grows, loses a server, shrinks and is deleted", script: (*harness).oneSet},
		{Name: "the cloud's server lists are five seconds old", before: lagLists, script: (*harness).oneMachine},
		{Name: "a disruption budget delays a pod's eviction, and the pod's volume is detached late", world: world.Options{PodVolume: true}, script: (*harness).oneMachine},
		{Name: "a leader that lost its lease keeps working on a Machine", stale: &process.StaleLeader{}, script: (*harness).oneMachine},
		{Name: "a call arrives 20 s late, after the leader that made it has lost its lease", stale: &process.StaleLeader{Pause: 20 * time.Second}, world: world.Options{LateCreates: true}, script: (*harness).oneMachine},
		{Name: "a leader that lost its lease keeps working on a set", stale: &process.StaleLeader{}, script: (*harness).oneSet},
		{Name: "drover crashes when it sends a create call, which reaches the cloud 23 s later (F-21)", holdBack: 23 * time.Second, world: world.Options{LateCreates: true}, script: (*harness).oneMachine},
		{Name: "the response to a server's creation is lost, and a user deletes the Machine with the ConfigMap and Cluster that it refers to (F-17)", before: loseServerAnswer, slack: withoutReferences + time.Minute, script: (*harness).referencesDeleted},
		{Name: "a Machine's server is shut down outside of drover", slack: 3 * time.Minute, script: (*harness).serverShutDown},
		{Name: "two of three Machines of a set become unhealthy", thinning: 10, world: world.Options{Safety: true}, slack: 4 * time.Minute, script: (*harness).twoUnhealthy},
		{Name: "a user deletes a Machine and removes its finalizers, and drover's orphan collector deletes its server and its Node", thinning: 10, world: world.Options{Safety: true}, slack: orphanSlack, script: (*harness).oneOrphan},
		{Name: "a set shrinks from eight Machines to two, and no loss is held (F-59)", thinning: 10, slack: 2 * time.Minute, script: (*harness).manyLeave},
		{Name: "six of a set's eight servers are lost at once, and their Nodes are not Ready any more (F-59)", thinning: 10, world: world.Options{Safety: true}, slack: 4 * time.Minute, script: (*harness).manyLost},
		{Name: "drover crashes when it sends a create call, which reaches the cloud 23 s later, and drover deletes the extra resource", holdBack: 23 * time.Second, focus: isOfSecond, world: world.Options{Safety: true, LateCreates: true}, slack: orphanSlack, script: (*harness).lateCreate},
	}
}

// FailureScenarios returns the scenarios for failing calls. It leaves out those with a stale leader or a late create, which need
// a crash.
func FailureScenarios() []Scenario {
	scenarios := slices.DeleteFunc(Scenarios(), func(s Scenario) bool { return s.stale != nil || s.holdBack > 0 })
	return append(scenarios,
		Scenario{Name: "a Machine is deleted by force (F-25)", world: world.Options{Forced: true}, script: (*harness).forcedDeletion},
		Scenario{Name: "the first server of a set goes to ERROR, and drover replaces it (F-24)", everySecond: failFirst, script: (*harness).setWithFailure})
}

// WatchScenarios returns the scenarios for disturbed watches: those for failing calls, and rollouts.
func WatchScenarios() []Scenario {
	return append(FailureScenarios(),
		Scenario{Name: "a Machine is deleted just after its Node registered", script: (*harness).deletedAtOnce},
		Scenario{Name: "a deployment is rolled out with a surge", script: (*harness).rollWithSurge},
		Scenario{Name: "a deployment is rolled out without a surge, scaled down by an entry in spec.removals, and scaled up", script: (*harness).rollWithoutSurge})
}

// Fault describes the fault of a run of the crash test, as the beginning of the phrase "a crash before call number 1". after is
// true for a fault point after a call.
func (s Scenario) Fault(after bool) string {
	switch {
	case s.holdBack > 0 && !after:
		return "a crash while it sends"
	case s.stale != nil && after:
		return "the loss of its lease after"
	case s.stale != nil:
		return "the loss of its lease before"
	case after:
		return "a crash after"
	}
	return "a crash before"
}

// OnlyDeletion reports whether only calls after the deletion of the first Machine may fail in this scenario.
func (s Scenario) OnlyDeletion() bool { return s.world.Forced }

// FocusPoints returns the fault points that the scenario tests in particular: those before create calls that are held back. It
// returns nil if the scenario holds back no call.
func (s Scenario) FocusPoints(points []process.Point) []process.Point {
	if s.holdBack == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(points), func(p process.Point) bool {
		return p.After || !calls.IsCreate(p.Call) || s.focus != nil && !s.focus(p)
	})
}

// Stride returns the step between tested fault points of this scenario. n is the step of other scenarios.
func (s Scenario) Stride(n int) int {
	if n == 1 || s.thinning == 0 {
		return n
	}
	return n * s.thinning
}

// loseAnswers makes the cloud carry out the first create of each kind and then cut the connection.
func loseAnswers(h *harness) error {
	for _, call := range []string{"POST /ports", "POST /floatingips", "POST /servers"} {
		h.Cloud.Inject(sim.Fault{Call: call, Drop: true, Times: 1})
	}
	return nil
}

// lagLists makes lists of servers show the state of five seconds ago.
func lagLists(h *harness) error {
	h.Cloud.SetListLag(5 * time.Second)
	return nil
}

// failFirst puts drover's first server into ERROR while it is building.
func failFirst(h *harness) {
	servers := h.Ours().Servers
	if h.failed != "" || len(servers) == 0 {
		return
	}
	if s, _ := h.Cloud.Server(servers[0]); s.Status == "BUILD" && h.Cloud.FailServer(servers[0], "No valid host was found. There are not enough hosts available.") {
		h.failed = servers[0]
	}
}
