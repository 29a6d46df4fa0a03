package autoscaler

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// provisionTime is the longest time that the annotation of a group can make the autoscaler wait for a node.
	provisionTime = joinTimeout + 10*time.Minute
	// serverTime is more than the time in which an order becomes a running pod in a group whose servers join.
	serverTime = 3 * time.Minute
)

// A group that an author has made so that the autoscaler prefers it to another group, and that never gets a node.
func TestAGroupThatNeverGetsNodesKeepsNoOrdersFromAnotherGroup(t *testing.T) {
	t.Parallel()
	const forever = "20000h"
	patient := map[string]string{v1alpha1.AnnotationOptions + "maxnodeprovisiontime": forever, v1alpha1.AnnotationJoinTimeout: forever}
	for name, c := range map[string]struct {
		lure pool
		// recreate is the interval at which the author deletes the Machines of the group; 0 means never.
		recreate time.Duration
		// within is how long a pod may wait until it runs on a node of the other group.
		within time.Duration
	}{
		"its Machines wait for initializers (F-92)": {
			lure: pool{machineAnnotations: map[string]string{v1alpha1.AnnotationInitializers: "never"}}, within: 5*time.Minute + serverTime,
		},
		"its Machines are paused (F-92)": {
			lure: pool{machineAnnotations: map[string]string{v1alpha1.AnnotationPaused: ""}}, within: 5*time.Minute + serverTime,
		},
		"its servers never become nodes (F-92)":                                  {lure: pool{lost: lostFrom(1)}, within: provisionTime + serverTime},
		"its author deletes and thereby renews its Machines every minute (F-92)": {lure: pool{lost: lostFrom(1)}, recreate: time.Minute, within: provisionTime + serverTime},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				// Of several groups with similar nodes the client takes the group with the name that sorts first.
				lure := c.lure
				lure.name, lure.annotations = "a-lure", maps.Clone(patient)
				a, b := w.pool(lure, 0, 0, 10), w.pool(pool{name: "b", flexible: true}, 0, 0, 10)
				w.startDrover(droverOptions{})
				w.startClient()
				w.run(time.Minute)
				// One more pod an hour. The client's back-off for a group is shorter, so each order may go to the lure.
				for n := 1; n <= 4; n++ {
					b.pods = n
					w.until(time.Minute, "the lure gets the order", func() bool { return w.replicas(a) > 0 })
					w.waitsAtMost(b, c.within, func(since time.Duration) {
						if c.recreate > 0 && since%c.recreate == 0 {
							w.must(w.admin.DeleteAllOf(w.ctx, &v1alpha1.Machine{}, client.InNamespace(namespace), client.MatchingLabels{labelPool: a.name}))
						}
					})
					w.run(time.Hour)
				}
			})
		})
	}
}

// waitsAtMost fails the test unless all pods of a pool run within the given time. Meanwhile it calls the function every two seconds.
func (w *world) waitsAtMost(p *pool, within time.Duration, meanwhile func(since time.Duration)) {
	w.Helper()
	running := func() bool { _, _, n := w.counts(p); return n == p.pods }
	began := time.Now()
	for ; !running(); w.step(w.tick) {
		since := time.Since(began)
		if since > within {
			w.Fatalf("the pods do not run after %v\n%s", since, w.describe())
		}
		meanwhile(since)
	}
}

// Each further order makes the autoscaler wait longer for all orders of a group.
func TestAGroupThatNeverGetsNodesKeepsNoOrdersWhilePodsArriveSteadily(t *testing.T) {
	t.Parallel()
	const forever, every = "20000h", 3 * time.Minute
	patient := map[string]string{v1alpha1.AnnotationOptions + "maxnodeprovisiontime": forever}
	endless := map[string]string{v1alpha1.AnnotationOptions + "maxnodeprovisiontime": forever, v1alpha1.AnnotationJoinTimeout: forever}
	for name, c := range map[string]struct {
		lure   pool
		within time.Duration
	}{
		"its Machines wait for initializers (F-92)": {
			pool{annotations: patient, machineAnnotations: map[string]string{v1alpha1.AnnotationInitializers: "never"}}, 5*time.Minute + serverTime,
		},
		"its Machines are paused (F-92)": {
			pool{annotations: patient, machineAnnotations: map[string]string{v1alpha1.AnnotationPaused: ""}}, 5*time.Minute + serverTime,
		},
		"its servers never become nodes, and drover replaces them (F-92)":       {pool{annotations: patient, lost: lostFrom(1), join: joinTimeout}, provisionTime + serverTime},
		"its servers never become nodes, and drover never replaces them (F-92)": {pool{annotations: endless, lost: lostFrom(1)}, provisionTime + serverTime},
		"its nodes never become Ready (F-92)":                                   {pool{annotations: patient, settle: 1000 * time.Hour}, provisionTime + serverTime},
		"its Machines cannot be created (F-92)":                                 {pool{annotations: patient, refused: true}, provisionTime + serverTime},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				lure := c.lure
				lure.name = "a-lure"
				a, b := w.pool(lure, 0, 0, 100), w.pool(pool{name: "b", flexible: true}, 0, 0, 100)
				w.startDrover(droverOptions{})
				w.drovers[0].refuses.Store(w.refusedMachines)
				w.startClient()
				w.run(time.Minute)
				began := time.Now()
				for running := 0; running < 20; w.step(w.tick) {
					since := time.Since(began)
					b.pods = min(20, int(since/every)+1)
					if _, _, running = w.counts(b); since > time.Duration(running)*every+c.within {
						w.Fatalf("%d pods run after %v\n%s", running, since, w.describe())
					}
				}
				if a.made == 0 && !lure.refused {
					t.Error("the lure got no order, so the test proves nothing")
				}
			})
		})
	}
}

// refusedMachines reports whether a request creates a Machine of a pool whose Machines the API server refuses.
func (w *world) refusedMachines(r *http.Request) bool {
	if !noMachines(r) {
		return false
	}
	body, err := r.GetBody()
	w.must(err)
	raw, err := io.ReadAll(body)
	w.must(err)
	return slices.ContainsFunc(w.pools, func(p *pool) bool { return p.refused && bytes.Contains(raw, []byte(p.name)) })
}
