package machine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/drain"
)

func TestDrainTimeoutAndJoinTimeoutOfAMachine(t *testing.T) {
	t.Run("a drain ends at the drain timeout, counted from the first cordon, and an Event names the pods that remain (MCM-58, MCM-66, F-136)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.end()
		b.pass()
		b.drains(2*time.Hour - time.Minute)
		b.restart() // a restart does not begin the time again
		b.drains(30 * time.Second)
		if b.cloud.count("DeleteServer") != 0 || b.deleting().Reason != "DrainingNode" {
			t.Fatalf("before: %+v", b.deleting())
		}
		b.events()
		b.drains(time.Minute)
		if got := b.events(); b.cloud.count("DeleteServer") != 1 || strings.Count(got, "DrainTimedOut") != 1 || !strings.Contains(got, "ns/p: it has not ended although its grace period is over; finalizers: example.com/stays") {
			t.Errorf("after: %+v, %d deletions, %s", b.deleting(), b.cloud.count("DeleteServer"), got)
		}
	})
	for name, away := range map[string]func(b *bench){
		"the Machine was paused":              func(b *bench) { b.annotate("cluster.k8s.io/paused", "true") },
		"drover did not run":                  func(*bench) {},
		"the Machine's deletion was withheld": func(b *bench) { b.kinds.(*kindsStub).why = "m" },
	} {
		t.Run("a drain whose time has not begun because "+name+" begins afterwards, and evicts the pods before the server is deleted (F-138)", func(t *testing.T) {
			b := joined(t, nil)
			b.kinds = &kindsStub{}
			b.restart()
			b.create(stubborn("p"))
			away(b)
			b.end()
			if name != "drover did not run" {
				b.pass()
			}
			b.wait(3 * time.Hour)
			if b.evicted("p") || b.node().Spec.Unschedulable {
				t.Fatal("the drain has begun")
			}
			b.annotate("cluster.k8s.io/paused", "")
			m := b.read()
			delete(m.Annotations, "cluster.k8s.io/paused")
			b.update(m)
			b.kinds.(*kindsStub).why = ""
			b.restart()
			b.pass()
			if !b.evicted("p") || b.cloud.count("DeleteServer") != 0 {
				t.Fatalf("evicted %v, %+v", b.evicted("p"), b.deleting())
			}
			b.drains(time.Hour)
			if b.cloud.count("DeleteServer") != 0 {
				t.Errorf("after an hour of the drain: %+v", b.deleting())
			}
		})
	}
	t.Run("a pause of three hours in the middle of a drain takes at most five minutes of its time (F-138)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.end()
		b.drains(time.Hour)
		b.annotate("cluster.k8s.io/paused", "true")
		b.pass()
		b.wait(3 * time.Hour)
		m := b.read()
		delete(m.Annotations, "cluster.k8s.io/paused")
		b.update(m)
		b.drains(50 * time.Minute)
		if b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("%+v", b.deleting())
		}
		b.drains(15 * time.Minute)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("a drain timeout that is shorter than the pods' grace period does not end the drain before the grace period (F-138)", func(t *testing.T) {
		b := joined(t, func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationDrainTimeout: "1s"}
		})
		p := stubborn("p")
		p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(600))
		b.create(p)
		b.end()
		b.pass()
		b.drains(10 * time.Minute)
		if b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("%+v", b.deleting())
		}
		b.drains(2 * time.Minute)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("pods that wait for their turn are evicted at the end of the drain timeout, and the Event names every pod and volume that is left (F-136)", func(t *testing.T) {
		b := joined(t, nil)
		for i := range 40 {
			b.create(stubborn(fmt.Sprintf("blocked-%02d", i)))
		}
		b.create(stubborn("stuck"))
		dns := stubborn("dns")
		dns.Spec.Priority = ptr.To(int32(2_000_000_000))
		b.create(dns)
		b.attach("pv-1")
		b.evicting = func(pod string) error {
			if strings.HasPrefix(pod, "blocked") {
				return refusedByBudget("The disruption budget guard needs 1 healthy pods and has 1 currently")
			}
			return nil
		}
		b.end()
		b.pass()
		b.drains(2*time.Hour + 10*time.Minute)
		got := b.events()
		for i := range 40 {
			if !strings.Contains(got, fmt.Sprintf("pod ns/blocked-%02d: The disruption budget guard", i)) {
				t.Errorf("no Event names pod %d", i)
			}
		}
		for _, text := range []string{"pod ns/stuck: it has not ended", "pod ns/dns: it has not ended", "volume pv-1: it is still attached"} {
			if !strings.Contains(got, text) {
				t.Errorf("no Event has %q", text)
			}
		}
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
		for _, event := range strings.Split(got, "\n") {
			if len(event) > 1024+len("Warning DrainTimedOut ") {
				t.Errorf("the API server refuses an Event of %d bytes", len(event))
			}
		}
	})
	t.Run("an annotation of the Machine shortens the drain timeout during the drain (CAPI-42)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.end()
		b.drains(10 * time.Minute)
		b.annotate(v1alpha1.AnnotationDrainTimeout, "10m")
		b.drains(time.Minute)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("the server is deleted without waiting for pods when the drain timeout is 0", func(t *testing.T) {
		b := joined(t, func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationDrainTimeout: "0s"}
		})
		b.create(stubborn("p"))
		b.end()
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("condition Warnings names a join timeout annotation that is not a duration", func(t *testing.T) {
		b := newBench(t, func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationJoinTimeout: "soon"}
		})
		b.pass()
		if c := find(b.read(), v1alpha1.ConditionWarnings); !strings.Contains(c.Message, `"soon" is not a duration`) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("a drain ends at once when the deletion is forced (MCM-57)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.end()
		b.pass()
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
}

func TestADrainWithoutAnotherNode(t *testing.T) {
	t.Run("without another Node, a refused disruption budget is not waited for, and an Event names the pod (MC-60, F-140)", func(t *testing.T) {
		b := joined(t, nil)
		b.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		b.create(stubborn("p"))
		b.evicting = func(string) error { return refusedByBudget("The disruption budget guard needs 1 healthy pods") }
		b.end()
		b.pass()
		if got := b.events(); b.cloud.count("DeleteServer") != 1 || !strings.Contains(got, "NodeNotEmpty") || !strings.Contains(got, "pod ns/p: The disruption budget guard") {
			t.Errorf("%+v, %s", b.deleting(), got)
		}
	})
	t.Run("without another Node, pods that end and volumes that are detached are waited for (F-140)", func(t *testing.T) {
		b := joined(t, nil)
		b.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		b.create(stubborn("p"))
		a := b.attach("pv-1")
		b.end()
		b.drains(time.Minute)
		if !b.evicted("p") || b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("evicted %v, %+v", b.evicted("p"), b.deleting())
		}
		b.release("p")
		b.drains(time.Minute)
		if b.cloud.count("DeleteServer") != 0 || b.deleting().Reason != "WaitingForVolumes" {
			t.Fatalf("%+v", b.deleting())
		}
		b.remove(a)
		b.drains(time.Minute)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	refuses := func(t *testing.T, pods ...string) *bench {
		t.Helper()
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.create(stubborn("q"))
		b.evicting = func(pod string) error {
			if slices.Contains(pods, pod) {
				return refusedByBudget("The disruption budget guard")
			}
			return nil
		}
		b.end()
		b.pass()
		return b
	}
	t.Run("a drain does not end when an operator cordons the last other Node in its middle (F-140)", func(t *testing.T) {
		b := refuses(t, "q")
		other := b.elsewhere()
		other.Spec.Unschedulable = true
		b.update(other)
		b.release("p")
		b.drains(time.Hour)
		b.restart()
		b.drains(30 * time.Minute)
		if b.cloud.count("DeleteServer") != 0 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("when drover drains the last other Node too, pods that end are waited for, and budgets are not (F-140)", func(t *testing.T) {
		b := refuses(t, "q")
		if _, err := drain.Cordon(t.Context(), b.memory.client, b.elsewhere(), b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.drains(10 * time.Minute)
		if b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("while p ends: %+v", b.deleting())
		}
		b.release("p")
		b.drains(time.Minute)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
}

// elsewhere returns the Node that is not the Machine's.
func (b *bench) elsewhere() *corev1.Node {
	b.t.Helper()
	n := &corev1.Node{}
	if err := b.memory.client.Get(b.t.Context(), client.ObjectKey{Name: "elsewhere"}, n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// evicted reports whether a pod is being deleted.
func (b *bench) evicted(name string) bool {
	b.t.Helper()
	p := &corev1.Pod{}
	if err := b.memory.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, p); err != nil {
		b.t.Fatal(err)
	}
	return p.DeletionTimestamp != nil
}

// release removes the finalizer of a stubborn pod, so that it ends.
func (b *bench) release(name string) {
	b.t.Helper()
	p := &corev1.Pod{}
	if err := b.memory.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, p); err != nil {
		b.t.Fatal(err)
	}
	p.Finalizers = nil
	b.update(p)
}
