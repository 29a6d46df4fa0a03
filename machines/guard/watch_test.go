package guard_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/guard"
)

func TestAdmissionPoliciesAreInForceOnlyWhileTheyAreStoredAsShipped(t *testing.T) {
	t.Run("policies are in force 10 s after they were first read, and no Event is recorded (F-5)", func(t *testing.T) {
		run(t, nil, func(w *world) {
			w.inForce(false)
			time.Sleep(9 * time.Second)
			w.inForce(false)
			time.Sleep(time.Second)
			w.inForce(true)
			w.reported(0, "")
			if w.metric() != 1 {
				w.Errorf("metric %v", w.metric())
			}
		})
	})
	for _, kind := range []string{policy, binding} {
		for _, name := range guard.Names {
			t.Run("policies are not in force while "+kind+" "+name+" is missing, and one Event is recorded (F-5)", func(t *testing.T) {
				run(t, without(kind, name), func(w *world) {
					time.Sleep(time.Hour)
					w.inForce(false)
					w.reported(1, kind+" "+name+" is missing: drover does not trust the values that the guard policies protect; apply the policies of this version: kubectl apply --server-side -k deploy")
					if w.metric() != 0 {
						w.Errorf("metric %v", w.metric())
					}
				})
			})
		}
	}
	t.Run("policies are in force once a missing binding is created, and not any more once the binding is deleted (F-5)", func(t *testing.T) {
		run(t, without(binding, "drover-guard-machines"), func(w *world) {
			time.Sleep(time.Minute)
			w.inForce(false)
			w.reported(1, "missing")
			if err := w.client.Create(w.Context(), pick(shipped(w.T), binding, "drover-guard-machines")); err != nil {
				w.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			w.inForce(true)
			if err := w.client.Delete(w.Context(), pick(shipped(w.T), binding, "drover-guard-machines")); err != nil {
				w.Fatal(err)
			}
			time.Sleep(time.Minute)
			w.inForce(false)
			w.reported(1, "missing")
		})
	})
	t.Run("a policy that was deleted and created again as shipped is in force a minute later (F-5)", func(t *testing.T) {
		run(t, nil, func(w *world) {
			time.Sleep(59 * time.Second)
			w.inForce(true)
			w.edit(policy, "drover-guard-machines", func(o *unstructured.Unstructured) { o.SetUID("another") })
			time.Sleep(time.Minute)
			w.inForce(true)
		})
	})
}

func TestWhetherAdmissionPoliciesAreInForceWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	t.Run("policies stay in force for 3 minutes after the last answer (F-5)", func(t *testing.T) {
		run(t, nil, func(w *world) {
			time.Sleep(30 * time.Second)
			w.down.Store(true)
			time.Sleep(2 * time.Minute)
			w.inForce(true)
			time.Sleep(2 * time.Minute)
			w.inForce(false)
			w.reported(1, "no route")
			w.down.Store(false)
			time.Sleep(2 * time.Minute)
			w.inForce(true)
			w.reported(0, "")
		})
	})
	t.Run("policies are not in force when the API server has never answered (F-5)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.down.Store(true)
			w.start(func(w *world) {
				time.Sleep(time.Hour)
				w.inForce(false)
				w.reported(1, "no route")
			})
		})
	})
}

func TestTheGuardRequiresEveryShippedAdmissionPolicyAndBinding(t *testing.T) {
	t.Run("the guard cannot be constructed when one of the shipped bindings is left out (F-5)", func(t *testing.T) {
		_, err := guard.New(guard.Options{Shipped: without(binding, "drover-guard-groups")(shipped(t)), Clock: clock.RealClock{}})
		if err == nil || !strings.Contains(err.Error(), "there is no ValidatingAdmissionPolicyBinding drover-guard-groups") {
			t.Errorf("got %v", err)
		}
	})
}
