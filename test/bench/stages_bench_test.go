package bench

import (
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var few = flag.Int("servers", 20, "how many Machines the benchmark of scaling makes in each stage")

const (
	// rolledOneByOne is the maximum number of Machines in the stage whose rollout has a surge of 1.
	rolledOneByOne = 6
	// lateJoin is how long after its server is ACTIVE a Node registers, in the stages with slow nodes.
	lateJoin = time.Minute
	// blocked is how long the stage counts drover's calls while the quota allows no further server.
	blocked = 50 * time.Second
)

// BenchmarkScale creates, deletes and replaces Machines in a simulated cloud with the latencies of a real one, and
// compares drover with a bare client that makes the same calls. Its metrics, each preceded by the name of the change:
//
//	x-floor         time until the last POST /servers (aim: 1.3), or until all is gone (1.4), divided by the bare client's time
//	s               drover's time, in seconds
//	idle-s          seconds between the first and the last creating call in which no such call was in flight (0)
//	longest-idle-s  the longest of these gaps
//	calls           calls to the cloud per Machine (2.75 for a creation, one more with a floating IP; 2.15 for a deletion)
//	writes          Kubernetes writes per Machine, without Events, leases and approvals (8 created, 5 deleted, 20 replaced)
//	reads           GET and LIST requests to Kubernetes per Machine, without watches
//	refused         writes per Machine that the API server refused (0)
//	beyond-surge    the largest number of concurrent servers, minus replicas and surge (0)
func BenchmarkScale(b *testing.B) {
	drover := buildDrover(b)
	for _, atATime := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("%d-at-a-time", atATime), func(b *testing.B) {
			scaleStages(b, drover, func(b *testing.B) cloudUnderTest { return simulated(b, atATime) })
		})
	}
}

// scaleStages runs every stage with its own API server, drover and cloud.
func scaleStages(b *testing.B, drover string, open func(*testing.B) cloudUnderTest) {
	stage := func(name string, f func(*rig)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f(newRig(b, drover, open(b)))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	stage("no-floating-IP", func(r *rig) { r.besideFloor(false) })
	stage("floating-IP", func(r *rig) { r.besideFloor(true) })
	stage("late-nodes", (*rig).lateNodes)
	stage("roll-surge-1", func(r *rig) { r.roll(min(*few, rolledOneByOne), 1) })
	stage("roll-surge-half", func(r *rig) { r.roll(*few, max(1, *few/2)) })
	stage("quota", (*rig).quota)
	stage("killed", (*rig).killed)
}

// besideFloor creates and deletes Machines, and compares drover with the bare client.
func (r *rig) besideFloor(floating bool) {
	n := *few
	floor := r.measureFloor(n, floating)
	r.Logf("%v", floor)
	r.begin(0)
	made := r.create(n, 1, floating)
	r.report("create", n, made)
	took := made.calls.of("POST /servers").last().Sub(made.began)
	making := made.calls.of("POST /ports", "POST /floatingips", "POST /servers")
	idle, longest := making.idle()
	r.ReportMetric(took.Seconds(), "create-s")
	r.ReportMetric(took.Seconds()/floor.created.Seconds(), "create-x-floor")
	r.ReportMetric(idle.Seconds(), "create-idle-s")
	r.ReportMetric(longest.Seconds(), "create-longest-idle-s")
	if len(making) > 0 {
		r.Logf("drover's first POST came after %.2f s", making[0].began.Sub(made.began).Seconds())
	}
	r.exactly(n, floating)
	deleted := r.remove()
	r.report("delete", n, deleted)
	took = deleted.calls.of("DELETE /servers/{id}", "DELETE /ports/{id}", "DELETE /floatingips/{id}").last().Sub(deleted.began)
	r.ReportMetric(took.Seconds(), "delete-s")
	r.ReportMetric(took.Seconds()/floor.deleted.Seconds(), "delete-x-floor")
	r.exactly(0, floating)
}

// lateNodes creates and deletes Machines whose Nodes register late. In between it counts the calls and writes of an idle drover.
func (r *rig) lateNodes() {
	r.begin(lateJoin)
	r.report("create", *few, r.create(*few, 1, false))
	from := time.Now()
	time.Sleep(restTime)
	requests, calls := r.since(from), r.log.between(from, time.Now())
	r.Logf("drover's requests in a minute at rest:\n%s", requests.table(1))
	r.Logf("drover's calls in a minute at rest:\n%s", calls.table(1))
	r.ReportMetric(float64(requests.reads()), "rest-reads/min")
	r.ReportMetric(float64(len(calls)), "rest-calls/min")
	r.report("delete", *few, r.remove())
	r.exactly(0, false)
}

// roll replaces every Machine by a rollout with the given surge.
func (r *rig) roll(n, surge int) {
	nodes := r.begin(0)
	r.create(n, surge, false)
	nodes.takePeak()
	rolled := r.during("every Machine is replaced", func() {
		r.change(func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec.Metadata.Labels = map[string]string{"rolled": "yes"}
		})
	}, func() bool { return r.rolled(n) })
	r.report("roll", n, rolled)
	r.ReportMetric(rolled.done.Sub(rolled.began).Seconds(), "roll-s")
	peak := nodes.takePeak()
	r.ReportMetric(float64(peak-n-surge), "beyond-surge")
	r.Logf("%d servers at a time at the most, with %d replicas and a surge of %d", peak, n, surge)
	r.exactly(n, false)
	r.remove()
}

// rolled reports whether n Machines of the new template run, and no other Machines are left.
func (r *rig) rolled(n int) bool {
	var d v1alpha1.MachineDeployment
	r.must(r.client.Get(r.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: r.name}, &d))
	return d.Status.ObservedGeneration == d.Generation && int(d.Status.UpdatedReplicas) == n && r.running() == n &&
		r.serversOf("").present == n && r.machines() == n
}

// quota counts the calls that drover makes while the quota allows only half of the servers.
func (r *rig) quota() {
	if r.limit == nil {
		r.Log("this cloud's quota cannot be changed from here: clouds.yaml has no cloud \"admin\"")
		return
	}
	half := max(1, *few/2)
	lift := r.limit(half)
	r.Cleanup(lift)
	r.begin(0)
	r.must(r.client.Create(r.Context(), r.deployment(*few, 1, false)))
	r.await("half of the Machines run", func() bool { return r.running() == half })
	time.Sleep(quiet)
	from := time.Now()
	time.Sleep(blocked)
	calls, writes := r.log.between(from, from.Add(blocked)), r.since(from)
	r.Logf("drover's calls while the quota blocks:\n%s", calls.table(1))
	r.Logf("drover's requests meanwhile:\n%s", writes.table(1))
	r.ReportMetric(float64(len(calls)), fmt.Sprintf("calls/%.0fs", blocked.Seconds()))
	r.ReportMetric(float64(writes.writes().all()), fmt.Sprintf("writes/%.0fs", blocked.Seconds()))
	lift()
	r.await("all Machines run", func() bool { return r.running() == *few })
	r.exactly(*few, false)
	r.remove()
}

// killed kills drover when half of the servers exist, and checks that its successor creates nothing twice and leaves nothing behind.
func (r *rig) killed() {
	n := *few
	r.join(0)
	drover := r.start()
	r.await("drover leads", r.leads)
	made := r.during("every Machine runs", func() {
		r.must(r.client.Create(r.Context(), r.deployment(n, 1, true)))
		r.await("half of the servers", func() bool { return r.serversOf("").present >= n/2 })
		r.must(drover.Process.Kill())
		r.start()
	}, func() bool { return r.running() == n })
	r.report("create", n, made)
	posted := len(succeeded(made.calls.of("POST /servers")))
	r.ReportMetric(float64(posted-n), "servers-too-many")
	r.exactly(n, true)
	r.report("delete", n, r.remove())
	r.exactly(0, true)
}

func succeeded(calls cloudCalls) (some cloudCalls) {
	for _, c := range calls {
		if c.status < http.StatusBadRequest {
			some = append(some, c)
		}
	}
	return some
}

// begin starts drover, and makes Nodes register when their servers have been ACTIVE for the duration late.
func (r *rig) begin(late time.Duration) *joining {
	r.Helper()
	nodes := r.join(late)
	r.start()
	r.await("drover leads", r.leads)
	return nodes
}

// create creates the deployment and waits until all its Machines run.
func (r *rig) create(n, surge int, floating bool) span {
	r.Helper()
	return r.during("every Machine runs", func() {
		r.must(r.client.Create(r.Context(), r.deployment(n, surge, floating)))
	}, func() bool { return r.running() == n })
}

// remove scales the deployment to size 0 and waits until nothing is left.
func (r *rig) remove() span {
	r.Helper()
	return r.during("all is gone", func() { r.resize(0) }, func() bool {
		found, err := r.left(r.Context())
		r.must(err)
		return len(found) == 0 && r.machines() == 0
	})
}

// machines returns the number of Machines.
func (r *rig) machines() int {
	var list v1alpha1.MachineList
	r.must(r.client.List(r.Context(), &list))
	return len(list.Items)
}

// report prints the cost of a span of n Machines.
func (r *rig) report(what string, n int, s span) {
	r.Helper()
	r.Logf("%s: done after %.1f s; drover's requests to Kubernetes per Machine:\n%s", what, s.done.Sub(s.began).Seconds(), s.requests.table(n))
	r.Logf("%s: drover's calls to the cloud per Machine:\n%s", what, s.calls.table(n))
	r.ReportMetric(float64(s.requests.writes().all())/float64(n), what+"-writes")
	r.ReportMetric(float64(s.requests.reads())/float64(n), what+"-reads")
	r.ReportMetric(float64(s.requests.refused())/float64(n), what+"-refused")
	r.ReportMetric(float64(len(s.calls))/float64(n), what+"-calls")
}
