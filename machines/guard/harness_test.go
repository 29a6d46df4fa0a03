package guard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

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

// world holds a Watch of the admission policies, and its client in memory.
type world struct {
	*testing.T
	client   client.Client
	watch    *guard.Watch
	events   *events.FakeRecorder
	registry *prometheus.Registry
	// down is true while the API server does not answer.
	down atomic.Bool
}

// newWorld stores the shipped policies and bindings, after change has altered them.
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

// inForce fails the test unless [Watch.InForce] returns want.
func (w *world) inForce(want bool) {
	w.Helper()
	synctest.Wait()
	if got := w.watch.InForce(); got != want {
		w.Errorf("in force: %v, want %v", got, want)
	}
}

// reported fails the test unless there are count new Events since the last call, and each Event contains the given text.
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

// run calls play in virtual time while the Watch runs. change alters the policies that are stored at first.
func run(t *testing.T, change func([]*unstructured.Unstructured) []*unstructured.Unstructured, play func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change)
		w.inForce(false)
		w.start(play)
	})
}

// start runs the Watch while play runs.
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

// without returns a change that removes one object.
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
