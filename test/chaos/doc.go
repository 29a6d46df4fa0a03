// Package chaos is the crash and fault test of drover. It runs scenarios with drover's real controllers in one process and in
// virtual time, injects one fault (a crash, a failing call, a disturbed watch, or a stale leader), and checks invariants while
// the run goes on and at its end.
//
//	           ┌──────────────────────────────────────────────────────┐
//	           │ scenario: creates, scales and deletes Machines,      │
//	           │           waits until a goal is reached              │
//	           │ harness:  starts processes, replaces one that died   │
//	           └───────┬──────────────────────────────────┬───────────┘
//	           starts, │                                  │ creates objects,
//	             kills │                                  │ checks goals and invariants
//	┌──────────────────▼───────┐                ┌─────────▼────────────────────┐
//	│ process                  │ ┌────────────┐ │ world                        │
//	│ drover's controllers     │ │  schedule  │ │ Kubernetes API in memory     │
//	│ fault point: before or   ├─►  one call  ├─► simulated OpenStack          │
//	│ after a call, a crash,   │ │ at a time, │ │ kubelets, other controllers  │
//	│ a failure or the loss of ◄─┤ the order  ◄─┤ unrelated resources          │
//	│ the lease                │ │ from a seed│ │ invariants: checked at calls │
//	└──────────────────────────┘ └────────────┘ └──────────────────────────────┘
//
// The words:
//
//	scenario             what users and the cloud do in a run, without the fault
//	run                  one scenario, one seed, at most one fault
//	harness              the state of a run: the world and the current process
//	process              one start of drover; after a crash the harness starts another one
//	fault point          before or after the n-th call of a name, for example the first "cloud POST /servers"
//	failure              how a call fails, once or until the harness ends the failure
//	disturbance          how a watch fails: late events, a cut connection, a lost history
//	stale leader         a process that lost its lease and does not know it
//	unrelated resources  objects and cloud resources of others, which must never change
//	invariant            what must hold whatever the fault is, such as one server per Machine
//
// The folders: this package has the scenarios and the harness; process runs the controllers and injects faults; world holds the
// cluster, the cloud and the invariants; schedule orders the calls; calls names them.
//
// Each call to the cloud or the cluster waits until every goroutine is idle. Then the scheduler lets one waiting call go.
// Therefore the seed determines the run, and a failure can be repeated.
package chaos
