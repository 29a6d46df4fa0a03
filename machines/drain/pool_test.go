package drain

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAHundredNodesAreDrainedAtTheSameTime(t *testing.T) {
	const nodes, each = 100, 5
	t.Run("the number of evictions in progress is limited, and no caller waits until a drain ends (CAPI-41)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var objects []client.Object
			for i := range nodes * each {
				p := pod(fmt.Sprintf("p%d", i))
				p.Spec.NodeName = fmt.Sprintf("n%d", i/each)
				objects = append(objects, &p)
			}
			var underWay, asked atomic.Int64
			barrier := make(chan struct{})
			c := indexed().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
					asked.Add(1)
					underWay.Add(1)
					defer underWay.Add(-1)
					<-barrier
					return c.Delete(ctx, o)
				},
			}).Build()
			ctx, stop := context.WithCancel(t.Context())
			pool := NewPool(PoolOptions{Drainer: &Drainer{Client: c, Reader: c}, Clock: clocktesting.NewFakePassiveClock(noon), OnResult: func(types.NamespacedName) {}})
			ended := make(chan error, 1)
			go func() { ended <- pool.Start(ctx) }()
			synctest.Wait()
			request := func(i int) Request {
				return Request{UID: types.UID(fmt.Sprint(i)), Order: Order{Node: fmt.Sprintf("n%d", i)}, Every: time.Second}
			}
			for i := range nodes {
				// The call of Drain must return before the drain has ended. The evictions cannot end before the test closes barrier.
				if _, known, err := pool.Drain(ctx, request(i)); known || err != nil {
					t.Fatalf("Drain() returned known %v, error %v", known, err)
				}
			}
			synctest.Wait()
			if n := underWay.Load(); n != parallel {
				t.Errorf("%d evictions are under way", n)
			}
			close(barrier)
			synctest.Wait()
			for i := range nodes {
				if r, known, err := pool.Drain(ctx, request(i)); !known || err != nil || len(r.Blocked) > 0 {
					t.Errorf("Drain() of node %d = %+v, %v", i, r, err)
				}
			}
			if n := asked.Load(); n != nodes*each {
				t.Errorf("%d evictions were requested", n)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})
}

func TestADrainPoolRunsRoundsOfEvictions(t *testing.T) {
	request := func(uid types.UID) Request {
		return Request{Machine: types.NamespacedName{Name: string(uid)}, UID: uid, Order: Order{Node: "n"}, Every: 10 * time.Second}
	}
	t.Run("a round of evictions is repeated when its result is 10 s old or the node has become unreachable (MCM-57)", func(t *testing.T) {
		clock := clocktesting.NewFakePassiveClock(noon)
		node := newTestNode(t, plain("p"))
		node.answer = func(context.Context, string) error { return tooMany() }
		pool := NewPool(PoolOptions{Drainer: node.drainer(), Clock: clock})
		for _, step := range []struct {
			name   string
			after  time.Duration
			mode   Mode
			rounds int
		}{
			{"the first request for a drain runs a round of evictions", 0, Mode{}, 1},
			{"another request for the drain within 10 s runs no round of evictions", 9 * time.Second, Mode{}, 0},
			{"another request for the drain after 10 s runs a round of evictions", 10 * time.Second, Mode{}, 1},
			{"the first request after the node became unreachable runs a round of evictions", 11 * time.Second, Mode{Abrupt: true}, 1},
			{"a second request after the node became unreachable runs no round of evictions", 12 * time.Second, Mode{Abrupt: true}, 0},
		} {
			clock.SetTime(noon.Add(step.after))
			e := request("u")
			e.Order.Mode = step.mode
			if _, known, err := pool.Drain(t.Context(), e); err != nil || !known || len(node.evictions()) != step.rounds {
				t.Errorf("%s: Drain() returned known %v, error %v", step.name, known, err)
			}
		}
	})
	t.Run("while the drain of one node hangs, requests for drains still return and other nodes are still drained (MCM-67)", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		node := newTestNode(t)
		hang := make(chan struct{})
		reader := interceptor.NewClient(node.client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				o := &client.ListOptions{}
				o.ApplyOptions(opts)
				if o.FieldSelector != nil && o.FieldSelector.String() == "spec.nodeName=stuck" {
					select {
					case <-hang:
					case <-ctx.Done():
					}
					return errors.New("the API server does not answer")
				}
				return c.List(ctx, list, opts...)
			},
		})
		results := make(chan types.NamespacedName, 100)
		pool := NewPool(PoolOptions{Drainer: &Drainer{Client: node.client, Reader: reader}, Clock: clocktesting.NewFakePassiveClock(noon), Workers: 2, OnResult: func(key types.NamespacedName) { results <- key }})
		ended := make(chan error, 1)
		go func() { ended <- pool.Start(ctx) }()
		begun := func(context.Context) (bool, error) { return pool.running.Load(), nil }
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, begun); err != nil {
			t.Fatal("the pool does not start")
		}
		stuck := request("stuck")
		stuck.Order.Node = "stuck"
		if _, known, err := pool.Drain(ctx, stuck); known || err != nil {
			t.Errorf("Drain() = known %v, error %v during the first round", known, err)
		}
		for range 50 {
			e := request("other")
			if _, _, err := pool.Drain(ctx, e); err != nil {
				t.Error(err)
			}
			pool.Forget("other")
		}
		if _, _, err := pool.Drain(ctx, request("free")); err != nil {
			t.Error(err)
		}
		for key := range results {
			if key.Name == "free" {
				break
			}
		}
		if r, known, err := pool.Drain(ctx, request("free")); !known || !r.Done || err != nil {
			t.Errorf("Drain() = %+v, %v, %v", r, known, err)
		}
		close(hang)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
