package drain

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAHundredDrainsAtOnce(t *testing.T) {
	const nodes, each = 100, 5
	t.Run("CAPI-41 ask for a bounded number of evictions at a time, and nobody who wants one waits", func(t *testing.T) {
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
			crew := NewCrew(CrewOptions{Drainer: &Drainer{Client: c, Reader: c}, Clock: clocktesting.NewFakePassiveClock(noon), Looked: func(types.NamespacedName) {}})
			ended := make(chan error, 1)
			go func() { ended <- crew.Start(ctx) }()
			synctest.Wait()
			order := func(i int) Errand {
				return Errand{UID: types.UID(fmt.Sprint(i)), Order: Order{Node: fmt.Sprintf("n%d", i)}, Every: time.Second}
			}
			for i := range nodes {
				// A call that waited would never return here.
				if _, known, err := crew.Look(ctx, order(i)); known || err != nil {
					t.Fatalf("known %v, error %v", known, err)
				}
			}
			synctest.Wait()
			if n := underWay.Load(); n != parallel {
				t.Errorf("%d evictions are under way", n)
			}
			close(barrier)
			synctest.Wait()
			for i := range nodes {
				if r, known, err := crew.Look(ctx, order(i)); !known || err != nil || len(r.Blocked) > 0 {
					t.Errorf("node %d: %+v, %v", i, r, err)
				}
			}
			if n := asked.Load(); n != nodes*each {
				t.Errorf("%d evictions were asked for", n)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})
}
