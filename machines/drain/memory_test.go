package drain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tolerant makes a pod tolerate every taint.
func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// stubborn makes a pod stay when it is deleted. Its grace period is 30 s.
func stubborn(p *corev1.Pod) {
	p.Finalizers = []string{"example.com/stays"}
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(30))
}

func on(node *testNode, p corev1.Pod) {
	node.t.Helper()
	p.Spec.NodeName = "n"
	if err := node.client.Create(node.t.Context(), &p); err != nil {
		node.t.Fatal(err)
	}
}

func (node *testNode) round(m *memory, mode Mode, after time.Duration) Result {
	node.t.Helper()
	result, err := node.drainer().round(node.t.Context(), Order{Node: "n", Mode: mode, VolumeTimeout: 5 * time.Minute}, m, noon.Add(after))
	if err != nil {
		node.t.Fatal(err)
	}
	return result
}

func TestARefusedEvictionMakesNoOtherPodWait(t *testing.T) {
	t.Run("pods with volumes and system-critical pods are evicted although a disruption budget blocks another pod with a volume (F-136)", func(t *testing.T) {
		dns := pod("dns", withPriority(systemCriticalPriority))
		node := newTestNode(t, append(append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...), plain("app"))...)
		on(node, dns)
		node.answer = func(ctx context.Context, name string) error {
			if name == "db-1" {
				return tooMany()
			}
			return client.IgnoreNotFound(node.client.Delete(ctx, ptr.To(pod(name))))
		}
		m := newMemory()
		node.round(m, Mode{}, 0)
		if got := node.evictions(); !slices.Equal(got, []string{"app", "db-1", "db-2"}) {
			t.Fatalf("first round: evictions of %v", got)
		}
		node.detach("pv-db-2")
		r := node.round(m, Mode{}, time.Minute)
		if got := node.evictions(); !slices.Equal(got, []string{"db-1", "dns"}) || r.Done {
			t.Errorf("second round: evictions of %v, %+v", got, r)
		}
	})
	t.Run("pods with volumes are evicted although the API server does not answer the eviction of another one (F-136)", func(t *testing.T) {
		node := newTestNode(t, append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...)...)
		node.answer = func(_ context.Context, name string) error {
			if name == "db-1" {
				return errors.New("EOF")
			}
			return nil
		}
		_, err := node.drainer().round(t.Context(), Order{Node: "n"}, newMemory(), noon)
		if got := node.evictions(); !slices.Equal(got, []string{"db-1", "db-2"}) || err == nil {
			t.Errorf("evictions of %v, error %v", got, err)
		}
	})
}

func TestAPodThatTheNodeTakesAgainIsEvictedOnce(t *testing.T) {
	t.Run("a pod that tolerates every taint and comes again after the cordon is evicted once, last, is named and not waited for (F-137)", func(t *testing.T) {
		node, m := newTestNode(t), newMemory()
		on(node, pod("operator-1", tolerant))
		on(node, pod("app"))
		node.answer = func(ctx context.Context, name string) error {
			if name == "app" {
				return tooMany()
			}
			return node.client.Delete(ctx, ptr.To(pod(name)))
		}
		node.round(m, Mode{}, 0)
		if got := node.evictions(); !slices.Equal(got, []string{"app", "operator-1"}) {
			t.Fatalf("first round: evictions of %v", got)
		}
		on(node, pod("operator-2", tolerant))
		r := node.round(m, Mode{}, 10*time.Second)
		if got := node.evictions(); !slices.Equal(got, []string{"app"}) || r.Done || len(r.Staying) != 1 || r.Staying[0].Pod != "ns/operator-2" {
			t.Fatalf("second round: evictions of %v, %+v", got, r)
		}
		node.answer = nil
		node.round(m, Mode{}, 20*time.Second)
		r = node.round(m, Mode{}, 30*time.Second)
		if got := node.evictions(); !slices.Equal(got, []string{"app", "operator-2"}) || !r.Done {
			t.Fatalf("third and fourth round: evictions of %v, %+v", got, r)
		}
		on(node, pod("operator-3", tolerant))
		r = node.round(m, Mode{}, 40*time.Second)
		if got := node.evictions(); len(got) != 0 || !r.Done || len(r.Staying) != 1 || !strings.Contains(r.Staying[0].Reason, "tolerates the taint") {
			t.Errorf("fifth round: evictions of %v, %+v", got, r)
		}
	})
	t.Run("a pod that comes after the cordon and does not tolerate it is evicted like any other, because the scheduler was only late (F-137)", func(t *testing.T) {
		node, m := newTestNode(t), newMemory()
		node.round(m, Mode{}, 0)
		on(node, pod("late", stubborn))
		r := node.round(m, Mode{}, time.Second)
		if got := node.evictions(); !slices.Equal(got, []string{"late"}) || r.Done || !slices.Equal(r.Leaving, []string{"ns/late"}) {
			t.Errorf("evictions of %v, %+v", got, r)
		}
	})
}

func TestAPodThatDoesNotEndIsNamed(t *testing.T) {
	objects := withVolume("db", corev1.ReadWriteOnce)
	stubborn(objects[0].(*corev1.Pod))
	node, m := newTestNode(t, objects...), newMemory()
	node.round(m, Mode{}, 0)
	if r := node.round(m, Mode{}, time.Second); len(r.Staying) != 0 || !slices.Equal(r.Leaving, []string{"ns/db"}) {
		t.Fatalf("a pod within its grace period is not named: %+v", r)
	}
	r := node.round(m, Mode{}, time.Second+30*time.Second+overdueAfter)
	if r.Done || len(r.Staying) != 1 || r.Staying[0].Pod != "ns/db" || !strings.Contains(r.Staying[0].Reason, "example.com/stays") || !strings.Contains(r.Staying[0].Reason, "pv-db") {
		t.Errorf("a pod that does not end is named with its finalizers and volumes (F-143): %+v", r)
	}
	if r := node.round(m, Mode{Final: true}, 2*time.Hour); !r.Done || len(r.Left()) != 1 {
		t.Errorf("the last round names it: %+v", r)
	}
}

func TestTheLastRoundEvictsEverythingThatIsLeft(t *testing.T) {
	node, m := newTestNode(t, append(withVolume("db-1", corev1.ReadWriteOnce), withVolume("db-2", corev1.ReadWriteOnce)...)...), newMemory()
	on(node, pod("dns", withPriority(systemCriticalPriority), stubborn))
	r := node.round(m, Mode{Final: true}, 0)
	if got := node.evictions(); !slices.Equal(got, []string{"db-1", "db-2", "dns"}) || r.Done {
		t.Fatalf("all pods are evicted at once when the time of the drain is over (F-136): evictions of %v, %+v", got, r)
	}
	if r = node.round(m, Mode{Final: true}, 30*time.Second); r.Done {
		t.Errorf("the drain waits for their grace periods (F-138): %+v", r)
	}
	if r = node.round(m, Mode{Final: true}, 30*time.Second+30*time.Second+overdueAfter); !r.Done || len(r.Left()) != 1 {
		t.Errorf("the drain ends after their grace periods (F-138): %+v", r)
	}
}
