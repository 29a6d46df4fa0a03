package day

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// crds returns drover's CustomResourceDefinitions.
func crds() ([]*unstructured.Unstructured, error) { return deploy.Objects("crds") }

// checkEnd checks that every resource belongs to a Machine, deletes the pools, and checks that nothing is left.
func (w *World) checkEnd() {
	w.within(30*time.Minute, "each server, port and floating IP has a Machine", w.balanced)
	w.log("drover was restarted %d times; %d Machines were created, %d unhealthy ones replaced, %d replaced by a rollout; the longest wait of a pod was %v", w.counts.starts.Load(), len(w.checker.made), w.checker.healed, w.checker.rolled, w.checker.slowest)
	calls := w.counts.calls()
	w.log("calls to the API server:%s", lines(calls))
	w.log("calls to the cloud:%s", lines(w.Cloud.CallsByName()))
	w.checkDay()
	w.checker.excused["end"], w.checker.patience = true, 24*hour
	for _, p := range pools {
		d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name}}
		w.must(w.Admin.Delete(w.ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	w.within(hour, "nothing is left", func() bool {
		left := w.Cloud.Leftovers()
		return w.balanced() && len(left.Servers) == 0 && len(left.Volumes) == 0 && len(w.nodes) == 0 && w.tokens() == 0
	})
}

// tokens returns the number of drover's bootstrap tokens.
func (w *World) tokens() int {
	var list corev1.SecretList
	w.must(w.Admin.List(w.ctx, &list, client.HasLabels{v1alpha1.LabelTokenMachine}))
	return len(list.Items)
}

// costs counts what drover has done so far.
type costs struct {
	// writes are calls to the API server. reads and changes are calls to the cloud. machines is the number of Machines
	// that were created plus the number that were deleted.
	writes, reads, changes, machines int
	at                               time.Duration
}

func (w *World) costs() costs {
	c := costs{writes: writes(w.counts.calls()), machines: len(w.checker.made) + w.checker.left, at: w.time()}
	for name, n := range w.Cloud.CallsByName() {
		if strings.HasPrefix(name, "GET ") {
			c.reads += n
		} else if name != "POST /auth/tokens" {
			c.changes += n
		}
	}
	return c
}

// The limits of what drover may do during an event of the day. Writes to the API server and changes in the cloud are limited per
// created or deleted Machine. An allowance per event is added, for the event itself and for ten Machines that were being created
// when it began. Reads from the cloud are limited per minute.
const (
	writesOfAMachine, writesOfAnEvent   = 16, 120
	changesOfAMachine, changesOfAnEvent = 3, 32
	readsOfAMinute                      = 6
)

// checkCosts fails the test when an event has cost more than the limits allow.
func (w *World) checkCosts(event string, before costs) {
	now := w.costs()
	machines, minutes := now.machines-before.machines, int((now.at-before.at)/time.Minute)
	wrote, changed, read := now.writes-before.writes, now.changes-before.changes, now.reads-before.reads
	w.log("%s: %d Machines were created or deleted; %d writes to the API server, %d changes and %d reads in the cloud in %d minutes", event, machines, wrote, changed, read, minutes)
	if wrote > writesOfAnEvent+writesOfAMachine*machines || changed > changesOfAnEvent+changesOfAMachine*machines || read > readsOfAMinute*(minutes+10)+changesOfAMachine*machines {
		w.Errorf("%s: %s cost more than its limits", w.clock(), event)
	}
}

// checkDay fails the test when too few Machines were created or replaced, or drover started too few times, to prove anything. It
// also fails the test when more servers, ports or floating IPs were created than Machines.
func (w *World) checkDay() {
	j, made := w.checker, len(w.checker.made)
	if j.healed < 2 || j.rolled < 3 || made < 30 || w.counts.starts.Load() < 3 {
		w.Errorf("too little has happened: %d Machines were created, %d unhealthy ones replaced, %d replaced by a rollout", made, j.healed, j.rolled)
	}
	for _, call := range []string{"POST /servers", "POST /ports", "POST /floatingips"} {
		if n := w.Cloud.CallCount(call); n > made+2 {
			w.Errorf("%d calls %s for %d Machines", n, call, made)
		}
	}
}
