package guard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/guard"
)

// world is a Watch over a client in memory.
type world struct {
	*testing.T
	client   client.Client
	watch    *guard.Watch
	events   *events.FakeRecorder
	registry *prometheus.Registry
	// down: the API server does not answer.
	down atomic.Bool
}

// newWorld has the shipped policies and bindings in place, and lets change alter them first.
func newWorld(t *testing.T, change func([]*unstructured.Unstructured) []*unstructured.Unstructured) *world {
	t.Helper()
	w := &world{T: t, events: events.NewFakeRecorder(10), registry: prometheus.NewRegistry()}
	stored := shipped(t)
	if change != nil {
		stored = change(stored)
	}
	build := fake.NewClientBuilder()
	for _, o := range stored {
		build.WithObjects(o)
	}
	w.client = build.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.down.Load() {
				return errors.New("no route")
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	var err error
	w.watch, err = guard.New(guard.Options{Reader: w.client, Shipped: shipped(t), Events: w.events, Clock: clock.RealClock{}, Registry: w.registry})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func shipped(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	all, err := deploy.Objects("policies")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inForce holds what the Watch says.
func (w *world) inForce(want bool) {
	w.Helper()
	synctest.Wait()
	if got := w.watch.InForce(); got != want {
		w.Errorf("in force: %v, want %v", got, want)
	}
}

// reported holds the number of Events since the last time, and what each says.
func (w *world) reported(count int, says string) {
	w.Helper()
	synctest.Wait()
	for range count {
		select {
		case event := <-w.events.Events:
			if !strings.Contains(event, guard.ReasonNotInForce) || !strings.Contains(event, says) {
				w.Errorf("the Event is %q, want it to say %q", event, says)
			}
		default:
			w.Errorf("there is no Event that says %q", says)
		}
	}
	select {
	case event := <-w.events.Events:
		w.Errorf("there is another Event: %s", event)
	default:
	}
}

func (w *world) metric() float64 {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil || len(families) != 1 {
		w.Fatalf("metrics: %v, %v", families, err)
	}
	return families[0].Metric[0].GetGauge().GetValue()
}

// edit changes a stored object.
func (w *world) edit(kind, name string, change func(*unstructured.Unstructured)) {
	w.Helper()
	o := pick(shipped(w.T), kind, name)
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	change(o)
	o.SetGeneration(o.GetGeneration() + 1)
	if err := w.client.Update(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func pick(all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

const policy, binding = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"

// run plays a test in virtual time, with the Watch running.
func run(t *testing.T, change func([]*unstructured.Unstructured) []*unstructured.Unstructured, play func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change)
		w.inForce(false)
		w.start(play)
	})
}

// start runs the Watch while a test plays.
func (w *world) start(play func(*world)) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error)
	go func() { done <- w.watch.Start(ctx) }()
	play(w)
	cancel()
	if err := <-done; err != nil {
		w.Error(err)
	}
}

// without leaves one object out.
func without(kind, name string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
	return func(all []*unstructured.Unstructured) (left []*unstructured.Unstructured) {
		for _, o := range all {
			if o.GetKind() != kind || o.GetName() != name {
				left = append(left, o)
			}
		}
		return left
	}
}

func TestInForce(t *testing.T) {
	t.Run("10 s after the first look, without an Event (F-5)", func(t *testing.T) {
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
			t.Run("not while "+kind+" "+name+" is missing, with one Event (F-5)", func(t *testing.T) {
				run(t, without(kind, name), func(w *world) {
					time.Sleep(time.Hour)
					w.inForce(false)
					w.reported(1, kind+" "+name+" is missing: what they guard is not believed; apply the policies of this version: kubectl apply --server-side -k deploy")
					if w.metric() != 0 {
						w.Errorf("metric %v", w.metric())
					}
				})
			})
		}
	}
	t.Run("once what was missing is there, and not when it goes again (F-5)", func(t *testing.T) {
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
	t.Run("not right after a policy was made again, although it is as shipped (F-5)", func(t *testing.T) {
		run(t, nil, func(w *world) {
			time.Sleep(59 * time.Second)
			w.inForce(true)
			w.edit(policy, "drover-guard-machines", func(o *unstructured.Unstructured) { o.SetUID("another") })
			time.Sleep(time.Minute)
			w.inForce(true)
		})
	})
}

// Each row alters what is stored in a way that lets an author write what is guarded.
func TestWhatIsAltered(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
				panic(err)
			}
		}
	}
	for _, row := range []struct {
		name, kind string
		change     func(*unstructured.Unstructured)
		says       string
	}{
		{"a policy without validations", policy, set([]any{}, "spec", "validations"), "(spec.validations)"},
		{"a validation that always passes", policy, set([]any{map[string]any{"expression": "true"}}, "spec", "validations"), "(spec.validations)"},
		{"a condition beside those of the policy", policy, set([]any{map[string]any{"name": "a", "expression": "false"}}, "spec", "matchConditions"), "(spec.matchConditions)"},
		{"a failure policy that lets everything through", policy, set("Ignore", "spec", "failurePolicy"), "(spec.failurePolicy)"},
		{"namespaces that are left out", policy, set(map[string]any{"a": "b"}, "spec", "matchConstraints", "namespaceSelector", "matchLabels"), "(spec.matchConstraints)"},
		{"a binding that only warns", binding, set([]any{"Warn"}, "spec", "validationActions"), "(spec.validationActions)"},
		{"a binding of another policy", binding, set("other", "spec", "policyName"), "(spec.policyName)"},
		{"a binding to some namespaces", binding, set(map[string]any{"a": "b"}, "spec", "matchResources", "namespaceSelector", "matchLabels"), "(spec.matchResources)"},
	} {
		t.Run(row.name+" (F-5)", func(t *testing.T) {
			run(t, nil, func(w *world) {
				time.Sleep(30 * time.Second)
				w.inForce(true)
				w.edit(row.kind, "drover-guard-machines", row.change)
				time.Sleep(time.Hour)
				w.inForce(false)
				w.reported(1, row.kind+" drover-guard-machines is not as shipped "+row.says)
			})
		})
	}
	t.Run("what an API server writes out is not altered (F-5)", func(t *testing.T) {
		run(t, nil, func(w *world) {
			w.edit(binding, "drover-guard-machines", func(o *unstructured.Unstructured) {
				set(map[string]any{}, "spec", "matchResources")(o)
				set("", "spec", "paramRef", "name")(o)
				o.SetAnnotations(map[string]string{"a": "b"})
			})
			time.Sleep(time.Hour)
			w.inForce(true)
			w.reported(0, "")
		})
	})
}

func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	t.Run("lets the last answer hold for 3 minutes (F-5)", func(t *testing.T) {
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
	t.Run("means no at the start (F-5)", func(t *testing.T) {
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

func TestTheShippedManifestsHoldEveryPolicy(t *testing.T) {
	t.Run("a missing one is an error (F-5)", func(t *testing.T) {
		_, err := guard.New(guard.Options{Shipped: without(binding, "drover-guard-groups")(shipped(t)), Clock: clock.RealClock{}})
		if err == nil || !strings.Contains(err.Error(), "there is no ValidatingAdmissionPolicyBinding drover-guard-groups") {
			t.Errorf("got %v", err)
		}
	})
}
