package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPodsThatAreMadeAgainOnTheNodeThatIsDrained(t *testing.T) {
	for name, pods := range map[string]int{"one pod": 1, "five pods of one owner": 5} {
		t.Run(name+" tolerating every taint: each is evicted once, comes again, and is evicted once more; the drain ends and names it, also after a restart (report 116)", func(t *testing.T) {
			node, m := newTestNode(t), newMemory()
			// Pods are evicted side by side.
			var mu sync.Mutex
			made := 0
			again := func() {
				mu.Lock()
				defer mu.Unlock()
				made++
				on(node, pod(fmt.Sprintf("operator-%d", made), tolerant))
			}
			for range pods {
				again()
			}
			node.answer = func(ctx context.Context, name string) error {
				if err := node.client.Delete(ctx, ptr.To(pod(name))); err != nil {
					return err
				}
				// Its owner makes another one before the next round, on the same node.
				again()
				return nil
			}
			asked, done := 0, false
			for n := range 20 {
				if n == 10 {
					m = newMemory() // as after a restart of drover
				}
				r := node.round(m, Mode{}, time.Duration(n)*10*time.Second)
				asked += len(node.evictions())
				if done = r.Done; done && len(r.Staying) != pods {
					t.Errorf("the drain is done with %+v", r)
				}
			}
			if !done || asked > 4*pods {
				t.Errorf("done: %v, after %d evictions of %d pods", done, asked, pods)
			}
		})
	}
}

func TestPodsOfASilentKubelet(t *testing.T) {
	for name, refusal := range map[string]error{"a budget refuses them": tooMany(), "the API server does not answer": errors.New("EOF")} {
		t.Run("are only ever evicted, and never deleted past their budget, when "+name+" (report 117)", func(t *testing.T) {
			node := newTestNode(t, withVolume("db", corev1.ReadWriteOnce)...)
			on(node, pod("web"))
			node.answer = func(context.Context, string) error { return refusal }
			m := newMemory()
			for n := range 5 {
				r, err := node.drainer().round(t.Context(), Order{Node: "n", Mode: Mode{Abrupt: true}, VolumeTimeout: 5 * time.Minute}, m, noon.Add(time.Duration(n)*20*time.Second))
				if !r.Done && err == nil {
					t.Errorf("round %d waits: %+v", n, r)
				}
			}
			var left corev1.PodList
			if err := node.client.List(t.Context(), &left, client.InNamespace("ns")); err != nil {
				t.Fatal(err)
			}
			for i := range left.Items {
				if left.Items[i].DeletionTimestamp != nil {
					t.Errorf("pod %s is being deleted", left.Items[i].Name)
				}
			}
			if got := slices.Compact(node.evictions()); len(left.Items) != 2 || !slices.Equal(got, []string{"db", "web"}) {
				t.Errorf("%d pods are left, evictions of %v", len(left.Items), got)
			}
		})
	}
}
