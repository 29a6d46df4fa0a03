package health_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health"
)

// part is one part of a test. Each part creates node groups of its own.
type part struct {
	name string
	run  func(*world)
}

func TestHealthChecksOnARealControlPlane(t *testing.T) {
	t.Parallel()
	newWorld(t).runs(t, []part{
		{"a healthy cluster causes no write, and no further health check is planned", (*world).testWell},
		{"of two Machines with unready Nodes, one is replaced after the timeout, and the other once the successor is Ready (MCM-44, MCM-46, MCM-47)", (*world).testReplaced},
		{"a new leader continues the replacements that the previous leader recorded, and starts no others (MCM-46)", (*world).testNewLeader},
		{"no Machine is replaced while most of its group are unhealthy, and Machines that stay unhealthy are replaced one at a time afterwards (MCM-48)", (*world).testOutage},
		{"a Machine whose deletion is refused does not block other replacements, and its deletion is retried with increasing waits (MCM-46)", (*world).testRefused},
	})
}

func TestHealthChecksBesideDroversOtherControllers(t *testing.T) {
	t.Parallel()
	newWorldInMemory(t).runs(t, []part{
		{"a Machine that recovers before the timeout is kept, and its condition Healthy becomes True (MCM-44)", (*world).testRecovers},
		{"a Machine that the cache shows as unhealthy is kept when a live read shows its Node Ready", (*world).testStaleCache},
		{"an unhealthy Machine is kept while another Machine of its group is replaced, even if drover's cache does not show that yet", (*world).testStaleRecord},
		{"a Machine whose Node registered again and does not become Ready is replaced when the start timeout ends, without any event (F-71, F-141)", (*world).testNeverStarts},
		{"a leader that has not renewed its lease in time replaces nothing (MCM-80)", (*world).testOldLease},
		{"the health timeout of an unhealthy Machine starts again after an outage of the API server (MCM-51)", (*world).testBlind},
	})
}

// runs executes the parts of a test one after the other, each with a health controller of its own.
func (w *world) runs(t *testing.T, parts []part) {
	t.Helper()
	for _, tt := range parts {
		t.Run(tt.name, func(t *testing.T) {
			here := *w
			here.T = t
			here.health = here.leader(nil)
			tt.run(&here)
		})
	}
}

func (w *world) testWell() {
	w.group("well", 4)
	result := w.later(time.Second)
	if result.RequeueAfter != 0 {
		w.Errorf("the next round is in %v", result.RequeueAfter)
	}
	w.later(time.Hour)
	if n := w.writes(); n != 0 {
		w.Errorf("%d writes", n)
	}
}

// writes returns the number of writes of the health controller so far.
func (w *world) writes() (n int) {
	w.Helper()
	requests, err := w.requests()
	w.must(err)
	for _, r := range requests {
		if r.Wrote() && strings.Contains(r.URI, "fieldManager=drover-health") {
			n++
		}
	}
	return n
}

func (w *world) testReplaced() {
	names := w.group("replaced", 6)
	w.drains(names[1], "long")
	w.report(corev1.ConditionUnknown, names[1])
	w.later(time.Second)
	w.report(corev1.ConditionUnknown, names[2])
	w.later(time.Second)
	w.later(time.Minute)
	if c := w.healthy(names[1]); c.Status != corev1.ConditionFalse || c.Reason != "NodeNotReady" || !strings.Contains(c.Message, "it is replaced at ") {
		w.Errorf("condition Healthy: %+v", c)
	}
	w.later(9*time.Minute - 10*time.Second)
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("before the timeout is over, %v are gone", gone)
	}
	w.later(15 * time.Second)
	w.replaces(names, names[1:2])
	if d := w.deployment("replaced"); recorded(d) != names[1] {
		w.Errorf("record: %+v", d.Status.HealthReplacements)
	}
	w.events("Machine "+names[1]+" is deleted, so that its set creates another: Node "+names[1]+": condition Ready is Unknown (Test)", 2)
	w.settled("replaced", 6) // the successor is created before the drain ends (F-33)
	w.later(time.Minute)
	if gone := w.leaving(names); !slices.Equal(gone, names[1:2]) {
		w.Fatalf("while a Machine is being replaced, %v are gone", gone)
	}
	w.drains(names[1], "")
	w.eventually("the Machine is gone", func() (string, bool) {
		all := w.machines("replaced")
		return fmt.Sprint(len(all)), len(all) == 6
	})
	w.later(2 * time.Second)
	w.replaces(names, names[1:3])
	w.settled("replaced", 6)
	w.later(2 * time.Second)
	if d := w.deployment("replaced"); recorded(d) != names[1]+" "+names[2] || *d.Spec.Replicas != 6 {
		w.Errorf("record: %+v, replicas %d", d.Status.HealthReplacements, *d.Spec.Replicas)
	}
}

// drains sets a Machine's annotation test/drains to value. The deletion of the Machine does not end before the annotation is empty, as
// if the drain took long.
func (w *world) drains(name, value string) {
	w.Helper()
	m := &v1alpha1.Machine{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, m))
	w.must(w.client.Patch(w.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test/drains":"`+value+`"}}}`))))
}

// events waits until the number of Events with the given note is count.
func (w *world) events(note string, count int) {
	w.Helper()
	w.eventually("Events say "+note, func() (string, bool) {
		var list corev1.EventList
		w.must(w.client.List(w.Context(), &list))
		var all []string
		n := 0
		for _, e := range list.Items {
			all = append(all, e.InvolvedObject.Kind+": "+e.Message)
			if e.Message == note {
				n++
			}
		}
		return strings.Join(all, "\n"), n == count
	})
}

func (w *world) testRecovers() {
	names := w.group("recovers", 4)
	w.report(corev1.ConditionFalse, names[0])
	w.later(time.Second)
	w.later(time.Minute)
	w.report(corev1.ConditionTrue, names[0])
	w.later(time.Second)
	if c := w.healthy(names[0]); c.Status != corev1.ConditionTrue {
		w.Errorf("condition Healthy: %+v", c)
	}
	w.later(time.Hour)
	if gone := w.leaving(names); gone != nil {
		w.Errorf("%v are gone", gone)
	}
	if c := w.healthy(names[1]); c.Type != "" {
		w.Errorf("a Machine that was always healthy has %+v", c)
	}
}

func (w *world) testNeverStarts() {
	names := w.group("starts", 20)
	m := &v1alpha1.Machine{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: names[3]}, m))
	w.must(w.client.Patch(w.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Joined"}}`))))
	w.report(corev1.ConditionFalse, names[3])
	if next := w.later(time.Second).RequeueAfter; next != 30*time.Minute {
		w.Errorf("the next round is in %v, want 30m", next)
	}
	w.later(30*time.Minute - time.Second)
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("before the timeout is over, %v are gone", gone)
	}
	w.later(time.Second)
	w.replaces(names, names[3:4])
}

func (w *world) testOutage() {
	names := w.group("outage", 10)
	w.report(corev1.ConditionUnknown, names[:8]...)
	w.later(time.Second)
	for range 3 {
		w.later(30 * time.Minute)
	}
	if gone := w.leaving(names); gone != nil {
		w.Fatalf("in the outage %v are gone", gone)
	}
	w.eventually("the brake is shown", func() (string, bool) {
		held := meta.FindStatusCondition(w.deployment("outage").Status.Conditions, v1alpha1.ConditionRepairHeld)
		message := w.healthy(names[0]).Message
		if held == nil || held.Reason != "GroupUnhealthy" || !strings.Contains(message, "more than 40 % of the Machines of MachineDeployment default/outage are unhealthy") {
			w.later(time.Second)
			return fmt.Sprint(held, message), false
		}
		return "", true
	})
	w.drains(names[0], "long")
	w.report(corev1.ConditionTrue, names[2:8]...)
	w.later(2 * time.Second)
	w.replaces(names, names[:1])
	if held := meta.FindStatusCondition(w.deployment("outage").Status.Conditions, v1alpha1.ConditionRepairHeld); held != nil {
		w.Errorf("the brake is still shown: %+v", held)
	}
	w.later(time.Minute)
	if gone := w.leaving(names); !slices.Equal(gone, names[:1]) {
		w.Fatalf("while a Machine is being replaced, %v are gone", gone)
	}
	w.drains(names[0], "")
	w.report(corev1.ConditionTrue, names[1])
}

func TestAHealthCheckInAControllerManagerReplacesAMachine(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	w := newWorldInMemory(t, func(m ctrl.Manager) error {
		r, err := health.New(health.Options{Control: m, Target: m, Clock: clock.RealClock{}, Settings: settings(timeout)})
		if err != nil {
			return err
		}
		return r.SetupWithManager(m)
	})
	t.Run("the Machine of an unhealthy Node is replaced at most 5 s after the timeout when the rest of its group is healthy (MCM-44)", func(t *testing.T) {
		here := *w
		here.T = t
		names := here.group("managed", 4)
		here.clock.SetTime(time.Now())
		began := time.Now()
		here.report(corev1.ConditionUnknown, names[2])
		here.eventually("it is gone", func() (string, bool) {
			gone := here.leaving(names)
			return strings.Join(gone, " "), slices.Equal(gone, names[2:3])
		})
		if took := time.Since(began); took < timeout-time.Second || took > timeout+5*time.Second {
			t.Errorf("it took %v", took)
		}
		here.settled("managed", 4)
	})
}
