package day

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

// PlayFaults runs a shorter day, in which the cloud and the watches fail while groups grow and shrink. It starts drover with the function
// start, and fails the test when an invariant is broken.
func PlayFaults(t testing.TB, start Starter) {
	w := newWorld(t, start)
	defer w.close()
	w.load = []level{{0, 6}, {1, 16}, {2, 24}, {3, 32}, {4, 6}, {6, 32}, {7, 6}}
	w.play([]event{
		{10 * time.Minute, "the cluster starts", (*World).up, false},
		{30 * time.Minute, "answers to creates are lost, after the first servers have failed", (*World).answersLost, false},
		{2*hour - time.Minute, "floating IPs are short for five minutes while groups grow", (*World).addressesShort, false},
		{3*hour - time.Minute, "the watch of Nodes is 15 minutes late while groups grow", (*World).nodesSeenLate, false},
		{4 * hour, "the cloud refuses deletions for 15 minutes while Machines leave", (*World).deletionsRefused, true},
		{7 * hour, "a cell is away while groups shrink", (*World).cellAway, false},
		{9 * hour, "the day is over", func(*World) {}, false},
	})
	w.checkEnd()
}

// answersLost raises the size of a pool by two, makes their first servers fail, and drops the answers to the creates that follow. The pool is at its
// minimum, so that the autoscaler does not take back the Machines. Each create in doubt must be settled by its own server: no Machine may get a
// second one, and none may be left.
func (w *World) answersLost() {
	size := w.size(pools[2].name)
	w.resize(pools[2].name, size+2, size+2)
	known, failed := w.servers(), map[string]bool{}
	posts, made := w.Cloud.CallCount("POST /servers"), len(w.checker.made)
	w.patiently(func() {
		w.within(20*time.Minute, "two servers have failed", func() bool {
			for _, s := range w.Cloud.Servers() {
				if !known[s.ID] && !failed[s.ID] && len(failed) < 2 {
					w.Cloud.FailServer(s.ID, "No valid host was found")
					failed[s.ID] = true
				}
			}
			return len(failed) == 2
		})
		clear := w.Cloud.Inject(sim.Fault{Call: "POST /servers", Drop: true, Times: 2})
		defer clear()
		w.within(20*time.Minute, "each server, port and floating IP has a Machine, and each Machine a server that works", func() bool {
			return len(w.servers()) == len(known)+2 && !w.anyServer(failed) && w.balanced()
		})
	})
	posts, made = w.Cloud.CallCount("POST /servers")-posts, len(w.checker.made)-made
	if w.log("%d POST /servers for %d new Machines", posts, made); posts > made+len(failed) {
		w.Errorf("%s: %d POST /servers for %d new Machines, %d of whose servers failed", w.clock(), posts, made, len(failed))
	}
	w.resize(pools[2].name, pools[2].least, size+2)
}

// resize sets the minimum and the size of a pool.
func (w *World) resize(pool string, least, size int) {
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pool}}
	w.must(w.Admin.Get(w.ctx, client.ObjectKeyFromObject(d), d))
	before := d.DeepCopy()
	d.Annotations[v1alpha1.AnnotationsMinSize[0]] = strconv.Itoa(least)
	d.Spec.Replicas = new(int32(size))
	w.must(w.Admin.Patch(w.ctx, d, client.MergeFrom(before)))
}

// anyServer reports whether one of the servers with the given IDs exists.
func (w *World) anyServer(ids map[string]bool) bool {
	for id := range w.servers() {
		if ids[id] {
			return true
		}
	}
	return false
}

// servers returns the IDs of all servers.
func (w *World) servers() map[string]bool {
	ids := map[string]bool{}
	for _, s := range w.Cloud.Servers() {
		ids[s.ID] = true
	}
	return ids
}

// addressesShort makes the creation of floating IPs fail for five minutes. When the shortage is over, the orders that follow must be kept: the
// autoscaler may take back only the Machines of the orders before.
func (w *World) addressesShort() {
	w.checker.patience = hour
	refused := sim.Fault{Call: "POST /floatingips", Status: http.StatusConflict, Body: `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip'].", "detail": ""}}`}
	clear := w.Cloud.Inject(refused)
	w.until(w.time() + 5*time.Minute)
	clear()
	left := w.checker.left
	w.within(15*time.Minute, "all pods run", w.allRun)
	w.checker.patience = usualPatience
	if gone := w.checker.left - left; gone > 0 {
		w.Errorf("%s: %d Machines were deleted after the shortage had ended", w.clock(), gone)
	}
}

// nodesSeenLate delivers no event of a watch of Nodes to drover for 15 minutes. The servers of that time join, and none may be given up.
func (w *World) nodesSeenLate() {
	late := make(chan struct{})
	w.checker.patience = hour
	w.nodesLate.Store(&late)
	left := w.checker.left
	w.until(w.time() + 15*time.Minute)
	w.nodesLate.Store(nil)
	close(late)
	w.within(20*time.Minute, "all pods run", w.allRun)
	w.checker.patience = usualPatience
	if gone := w.checker.left - left; gone > 0 {
		w.Errorf("%s: %d Machines were deleted because drover saw their Nodes late", w.clock(), gone)
	}
}

// leaving returns the number of Machines that are being deleted.
func (w *World) leaving() (n int) {
	var list v1alpha1.MachineList
	w.must(w.seen.List(w.ctx, &list))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			n++
		}
	}
	return n
}

// deletionsRefused answers each DELETE of a server with 503 and without Retry-After for 15 minutes. drover must back off.
func (w *World) deletionsRefused() {
	clear := w.Cloud.Inject(sim.Fault{Call: "DELETE /servers/{id}", Status: http.StatusServiceUnavailable})
	w.within(40*time.Minute, "four Machines leave", func() bool { return w.leaving() >= 4 })
	deletes, kube := w.Cloud.CallCount("DELETE /servers/{id}"), w.counts.calls()
	w.until(w.time() + 15*time.Minute)
	n := w.leaving()
	deletes, wrote := w.Cloud.CallCount("DELETE /servers/{id}")-deletes, writes(since(kube, w.counts.calls()))
	clear()
	w.log("%d Machines leave: %d DELETEs and %d writes in 15 minutes", n, deletes, wrote)
	if deletes > 25*n || wrote > 30*n {
		w.Errorf("%s: %d DELETEs and %d writes for %d Machines that leave", w.clock(), deletes, wrote, n)
	}
	w.within(30*time.Minute, "each server, port and floating IP has a Machine", func() bool { return w.leaving() == 0 && w.balanced() })
}

// cellAway takes a cell of the cloud away for 15 minutes while Machines leave. A server whose deletion was requested does not count as lost: all that
// belonged to the Machines must be gone when the cell is back.
func (w *World) cellAway() {
	w.within(40*time.Minute, "four Machines leave", func() bool { return w.leaving() >= 4 })
	w.Cloud.LoseCell("cell1")
	w.until(w.time() + 15*time.Minute)
	w.Cloud.RestoreCells()
	w.within(30*time.Minute, "each server, port and floating IP has a Machine", func() bool { return w.leaving() == 0 && w.balanced() })
}
