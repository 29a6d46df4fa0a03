package orphans

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestOrphansAreReportedAndThenDeletedOnARealControlPlane(t *testing.T) {
	w := newWorld(t)
	w.watch()
	w.start()
	machines, nodes := map[string]*v1alpha1.Machine{}, map[string]*corev1.Node{}
	for _, name := range []string{"a", "b", "c", "d"} {
		machines[name], nodes[name] = w.machine(name)
	}
	w.later()
	inOrder(t, "writes nothing and makes no call to the cloud in a round in which each resource has a Machine (CAPI-59)", func(t *testing.T) {
		if shown := w.shown(); !strings.Contains(shown[memoryKey], testCluster) || shown[reportKey] != "" {
			t.Fatalf("the ConfigMap is %v", shown)
		}
		before := w.written()
		w.later()
		w.sim.ForgetCalls()
		w.pass(t.Context(), w.since)
		if n := w.written() - before; n != 0 || len(w.sim.Calls()) != 0 || w.counts() != [3]int{4, 4, 4} {
			t.Errorf("%d writes, %d calls; there are %v", n, len(w.sim.Calls()), w.counts())
		}
	})
	pod := w.pod("busy", "a")
	w.remove(machines["a"])
	inOrder(t, "reports a server without a Machine in the first round, and does not delete it (MCM-81)", func(t *testing.T) {
		w.later()
		if w.counts() != [3]int{4, 4, 4} || !strings.Contains(w.shown()[reportKey], "checked again") || w.metric("drover_orphans", "server") != 1 {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown()[reportKey])
		}
	})
	inOrder(t, "deletes nothing while drover lacks the lease or cannot reach the API server, nor in the first round afterwards (MCM-80)", func(t *testing.T) {
		w.lost.Store(true)
		before := w.written()
		w.later()
		if n := w.written() - before; n != 0 || w.metric("drover_orphans_aborted", "Stale") != 1 {
			t.Errorf("%d writes without the lease", n)
		}
		w.lost.Store(false)
		w.away.Store(true)
		w.later()
		if w.metric("drover_orphans_aborted", "Stale") != 1 {
			t.Error("the metric does not show it")
		}
		w.away.Store(false)
		w.later()
		if w.counts() != [3]int{4, 4, 4} || w.now(nodes["a"]).Spec.Unschedulable {
			t.Errorf("there are %v", w.counts())
		}
	})
	inOrder(t, "drains the Node before it deletes the server (MCM-81)", func(t *testing.T) {
		w.later()
		if w.counts() != [3]int{4, 4, 4} || !w.now(nodes["a"]).Spec.Unschedulable || w.evicted(pod) == nil {
			t.Errorf("there are %v; the node: %+v", w.counts(), w.now(nodes["a"]).Spec)
		}
	})
	inOrder(t, "deletes the server, then its port and floating IP, then the Node (MCM-84, MCM-86, CAPI-59)", func(t *testing.T) {
		w.must(w.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
		w.later()
		w.eventually("the server is deleted", func() bool { return w.counts() == [3]int{3, 4, 4} })
		w.later()
		if w.counts() != [3]int{3, 3, 3} || w.now(nodes["a"]) == nil {
			t.Errorf("there are %v", w.counts())
		}
		w.ready(w.now(nodes["a"]), corev1.ConditionUnknown)
		w.later()
		if w.now(nodes["a"]) == nil {
			t.Error("the Node was deleted after one round that found it not Ready")
		}
		w.later()
		if w.now(nodes["a"]) != nil {
			t.Errorf("the Node still exists; the report is %q", w.shown()[reportKey])
		}
		for kind, want := range map[string]float64{"server": 1, "floating_IP": 1, "port": 1, "node": 1} {
			if got := w.metric("drover_orphans_collected_total", kind); got != want {
				t.Errorf("%v of kind %s were counted", got, kind)
			}
		}
		for call, want := range map[string]int{"DELETE /servers/{id}": 1, "DELETE /ports/{id}": 1, "DELETE /floatingips/{id}": 1} {
			if got := w.sim.CallCount(call); got != want {
				t.Errorf("%d × %s", got, call)
			}
		}
	})
	inOrder(t, "records Events on the ConfigMap of the cluster ID and on the Node (CAPI-59)", func(*testing.T) {
		for _, reason := range []string{"OrphanFound", "OrphanDraining", "OrphanDeleted"} {
			w.eventually("there is an Event "+reason, func() bool { return w.events("drover-cluster-id", reason) > 0 })
		}
		w.eventually("the Node has one", func() bool { return w.events("a", "OrphanDeleted") == 1 })
	})
	inOrder(t, "keeps, as a new leader, the server of a working Node whose Machine it never saw, until an operator confirms the deletion (MCM-82)", func(t *testing.T) {
		w.remove(machines["b"])
		w.begin(w.clock.Now())
		w.watch()
		if !w.Collector.begin(t.Context()) {
			t.Fatal("the memory cannot be read")
		}
		w.later()
		w.later()
		w.later()
		if w.counts() != [3]int{3, 3, 3} || !strings.Contains(w.shown()[reportKey], "its Machine either was never seen") {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown()[reportKey])
		}
		w.confirmed.Store(true)
		w.later()
		w.eventually("an operator's confirmation allows the deletion", func() bool { return w.counts()[0] == 2 })
		w.confirmed.Store(false)
	})
	inOrder(t, "deletes no orphan when all Machines are gone, even with an operator's confirmation (MCM-82)", func(t *testing.T) {
		w.remove(machines["c"])
		w.remove(machines["d"])
		w.confirmed.Store(true)
		before := w.counts()[0]
		for range 3 {
			w.later()
		}
		if w.counts()[0] != before || w.metric("drover_orphans_aborted", "NoMachines") != 1 || !strings.Contains(w.shown()[reportKey], "NoMachines") {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown()[reportKey])
		}
		w.eventually("an Event reports it", func() bool { return w.events("drover-cluster-id", "OrphansNotCollected") > 0 })
	})
}

// While drover runs, a user deletes the CRDs and removes the finalizers of the Machines, as docs/operations.md says, and then
// creates the CRDs again.
func TestMachinesThatVanishWithTheirCRDDoNotCountAsDeleted(t *testing.T) {
	w := newWorld(t)
	// The API server sets creation times by the real clock. The test's clock is a day behind, so CRDs that are created again now
	// are younger than all resources.
	w.clock.SetTime(time.Now().Add(-24 * time.Hour))
	w.since = w.clock.Now()
	w.watch()
	w.start()
	gone, _ := w.machine("gone")
	stays, _ := w.machine("stays")
	w.later()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName("machines.cluster.k8s.io")
	inOrder(t, "no orphan is deleted while the CRD of Machines is missing (MCM-82)", func(t *testing.T) {
		w.must(w.client.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationAllowDeletion+`":"true"}}}`))))
		w.must(w.client.Delete(t.Context(), crd))
		w.eventually("the deletion of both Machines was seen", func() bool {
			seen := w.witness.sightings()
			return seen[gone.UID].Leaving && seen[stays.UID].Leaving
		})
		w.pass(t.Context(), w.since)
		if w.metric("drover_orphans_aborted", string(verdict.Stale)) != 1 {
			t.Errorf("the report is %q", w.shown()[reportKey])
		}
	})
	inOrder(t, "servers with a working Node are reported and not deleted after the CRD was created again (MCM-82)", func(t *testing.T) {
		w.eventually("the definition exists again", func() bool { return deploy.Apply(t.Context(), w.client, "crds") == nil })
		w.eventually("there is a Machine", func() bool {
			one := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "new"}, Spec: stays.Spec}
			return w.client.Create(t.Context(), one) == nil
		})
		for range 4 {
			w.later()
		}
		if w.counts() != [3]int{2, 2, 2} || !strings.Contains(w.shown()[reportKey], "deleted together with a CRD") {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown()[reportKey])
		}
	})
}

// A second drover with the same cluster ID creates servers for Machines that this cluster does not have.
func TestAClonedClusterStopsTheDeletionOfOrphans(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.watch()
	w.start()
	w.machine("a")
	w.later()
	lives, _ := w.machine("b")
	stranger := lives.DeepCopy()
	stranger.Name, stranger.UID = "of-the-clone", "of-the-clone"
	w.server(stranger)
	t.Run("no orphan is deleted, by this leader or the next, after a clone of this cluster has created a server (MCM-82)", func(t *testing.T) {
		w.remove(lives)
		for range 3 {
			w.later()
		}
		w.begin(w.clock.Now())
		w.watch()
		if !w.Collector.begin(t.Context()) {
			t.Fatal("the memory cannot be read")
		}
		for range 3 {
			w.later()
		}
		if w.counts() != [3]int{3, 3, 3} || w.metric("drover_orphans_aborted", string(verdict.Foreign)) != 1 {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown()[reportKey])
		}
	})
}

// The etcd is restored to its state of yesterday. It lacks the Machines of all resources that were created since then, and
// its lease was last renewed yesterday.
func TestARestoredEtcdStopsTheDeletionOfOrphans(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.start()
	m, _ := w.machine("a")
	w.later()
	yesterday := w.clock.Now()
	w.eventuallyIn(time.Minute, "a night passes", func() bool { return w.clock.Since(yesterday) > 8*time.Hour })
	today := m.DeepCopy()
	today.Name, today.UID = "today", "today"
	w.server(today)
	w.eventuallyIn(time.Minute, "it is another hour later", func() bool { return w.clock.Since(yesterday) > 9*time.Hour })
	w.begin(w.clock.Now())
	w.watch()
	w.Leading = func() (before, since time.Time) { return yesterday, w.since }
	if !w.Collector.begin(t.Context()) {
		t.Fatal("the memory cannot be read")
	}
	t.Run("no orphan is deleted when a server was created after the last renewal of the lease in the restored etcd (MCM-82)", func(t *testing.T) {
		for range 3 {
			w.later()
		}
		if w.counts() != [3]int{2, 2, 2} || w.metric("drover_orphans_aborted", string(verdict.Forgotten)) != 1 {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown()[reportKey])
		}
	})
}

func TestTheOrphanCheckRunsPeriodically(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.must(w.SetupWithManager(w.mgr))
	w.start()
	m, n := w.machine("a")
	w.machine("b")
	w.must(w.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}))
	stranger := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	w.eventually("one round was run", func() bool { return w.shown() != nil })
	w.remove(m)
	w.must(w.client.Delete(t.Context(), n))
	removed := w.clock.Now()
	inOrder(t, "deletes an orphan in the second round, two periods after the start (MCM-81)", func(t *testing.T) {
		w.eventuallyIn(10*time.Second, "server, floating IP and port are gone", func() bool { return w.counts() == [3]int{1, 1, 1} })
		// The test sets no upper bound for this time, because it depends on how fast the test's clock runs compared with the API
		// server.
		if took := w.clock.Since(removed); took < testPeriod {
			t.Errorf("it took %s", took)
		}
	})
	inOrder(t, "sets the annotation unmanaged on a Node that never belonged to a Machine (MCM-86)", func(*testing.T) {
		w.eventually("it is", func() bool { return w.now(stranger).Annotations[v1alpha1.AnnotationUnmanaged] == "true" })
	})
	inOrder(t, "removes the annotation unmanaged from a Node that has got a Machine (MCM-86)", func(t *testing.T) {
		w.must(w.client.Create(t.Context(), &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "by-hand"}, Spec: m.Spec}))
		w.eventuallyIn(10*time.Second, "it does", func() bool { return w.now(stranger).Annotations[v1alpha1.AnnotationUnmanaged] == "" })
	})
}

// eventuallyIn moves the clock by step, and a second more, at a time until holds returns true.
func (w *world) eventuallyIn(step time.Duration, what string, holds func() bool) {
	w.Helper()
	w.eventually(what, func() bool {
		w.clock.Step(step)
		return holds()
	})
}

// now returns the stored Node; nil when it is gone.
func (w *world) now(n *corev1.Node) *corev1.Node {
	w.Helper()
	now := &corev1.Node{}
	err := w.client.Get(w.Context(), client.ObjectKeyFromObject(n), now)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return now
}

// pod creates a pod on a Node.
func (w *world) pod(name, node string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.NodeName, pod.Spec.Containers = node, []corev1.Container{{Name: "c", Image: "i"}}
	w.must(w.client.Create(w.Context(), pod))
	pod.Status.Phase = corev1.PodRunning
	w.must(w.client.Status().Update(w.Context(), pod))
	return pod
}

// evicted returns when the eviction of a pod started; nil when it has not started.
func (w *world) evicted(pod *corev1.Pod) *metav1.Time {
	w.Helper()
	w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(pod), pod))
	return pod.DeletionTimestamp
}

// events returns the number of Events about an object that have the given reason.
func (w *world) events(about, reason string) (n int) {
	w.Helper()
	var list corev1.EventList
	w.must(w.client.List(w.Context(), &list))
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Name == about && e.Reason == reason {
			n++
		}
	}
	return n
}
