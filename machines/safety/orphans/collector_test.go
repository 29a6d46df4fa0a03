package orphans

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
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
		if stored := w.stored(); stored.UID == "" || len(stored.Data) > 0 {
			t.Fatalf("the ConfigMap is %v", stored)
		}
		before := w.written()
		w.later()
		w.sim.ForgetCalls()
		w.pass(t.Context())
		if n := w.written() - before; n != 0 || len(w.sim.Calls()) != 0 || w.counts() != [3]int{4, 4, 4} {
			t.Errorf("%d writes, %d calls; there are %v", n, len(w.sim.Calls()), w.counts())
		}
	})
	pod := w.pod("busy", "a")
	w.remove(machines["a"])
	inOrder(t, "stores the end of a Machine that has left a server, and writes nothing when it is stored (MCM-82)", func(t *testing.T) {
		w.storeEnds(t.Context())
		if ended := w.stored().Data[endedKey]; !strings.Contains(ended, string(machines["a"].UID)) {
			t.Errorf("stored are %s", ended)
		}
		before := w.written()
		w.ends.unstored.Store(true)
		if w.storeEnds(t.Context()); w.written() != before {
			t.Error("wrote again")
		}
	})
	inOrder(t, "reports a server whose Machine has just ended, and does not delete it (MCM-81)", func(t *testing.T) {
		w.pass(t.Context())
		if w.counts() != [3]int{4, 4, 4} || !strings.Contains(w.shown(), "less than 15m") || w.metric("drover_orphans", "server") != 1 {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown())
		}
	})
	inOrder(t, "deletes nothing while drover lacks the lease or cannot reach the API server (MCM-80)", func(t *testing.T) {
		w.lost.Store(true)
		before := w.written()
		w.later()
		if n := w.written() - before; n != 0 || w.metric("drover_orphans_aborted", "Stale") != 1 {
			t.Errorf("%d writes without the lease", n)
		}
		w.lost.Store(false)
		w.away.Store(true)
		w.later()
		if w.counts() != [3]int{4, 4, 4} || w.now(nodes["a"]).Spec.Unschedulable || w.metric("drover_orphans_aborted", "Stale") != 1 {
			t.Errorf("there are %v", w.counts())
		}
		if shown := w.shown(); !strings.Contains(shown, "(Stale)") || !strings.Contains(shown, string(machines["a"].UID)) {
			t.Errorf("the report does not show both the reason and the orphan: %s", shown)
		}
		w.away.Store(false)
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
		w.pass(t.Context())
		if w.now(nodes["a"]) == nil {
			t.Error("the Node was deleted as soon as it was not Ready")
		}
		w.later()
		if w.now(nodes["a"]) != nil {
			t.Errorf("the Node still exists; the report is %q", w.shown())
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
	inOrder(t, "records Events on the ConfigMap with the report and on the Node (CAPI-59)", func(*testing.T) {
		for _, reason := range []string{"OrphanFound", "OrphanDraining", "OrphanDeleted"} {
			w.eventually("there is an Event "+reason, func() bool { return w.events(name, reason) > 0 })
		}
		w.eventually("the Node has one", func() bool { return w.events("a", "OrphanDeleted") == 1 })
	})
	inOrder(t, "only reports what a Machine has left that was removed while drover was down (MCM-82)", func(t *testing.T) {
		w.removeUnseen(machines["b"])
		for range 3 {
			w.later()
		}
		if w.counts() != [3]int{3, 3, 3} || !strings.Contains(w.shown(), "has not seen the end") || w.metric("drover_orphans_aborted", "Unconfirmed") != 1 {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown())
		}
		w.eventually("an Event reports it", func() bool { return w.events(name, "OrphansNotCollected") > 0 })
	})
	inOrder(t, "deletes it when a person confirms it by the Machine's UID, and the confirmation ends (MCM-82)", func(t *testing.T) {
		w.confirm("yes, " + string(machines["b"].UID))
		w.later()
		if w.eventually("the server is deleted", func() bool { return w.counts()[0] == 2 }); w.stored().Annotations[v1alpha1.AnnotationCollect] != "" {
			t.Error("the annotation is left")
		}
		if shown := w.shown(); !strings.Contains(shown, `"yes": it does not say what`) || !strings.Contains(w.stored().Data[endedKey], string(machines["b"].UID)) {
			t.Errorf("the ConfigMap has %v", w.stored().Data)
		}
		w.later()
		if w.counts() != [3]int{2, 2, 2} || strings.Contains(w.shown(), "yes") {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown())
		}
	})
	inOrder(t, "deletes as a new leader what a Machine has left whose end the previous leader has stored (MCM-82)", func(t *testing.T) {
		w.remove(machines["c"])
		w.storeEnds(t.Context())
		w.begin()
		w.watch()
		w.later()
		w.eventually("the server is deleted", func() bool { return w.counts()[0] == 1 })
	})
	inOrder(t, "deletes what the last Machine of the cluster has left (MCM-81)", func(*testing.T) {
		w.remove(machines["d"])
		w.later()
		w.eventually("the server is deleted", func() bool { return w.counts()[0] == 0 })
	})
}

// While drover runs, a user deletes the CRDs and removes the finalizers of the Machines, as docs/operations.md says, and then
// creates the CRDs again.
func TestMachinesThatVanishWithTheirCRDDoNotCountAsDeleted(t *testing.T) {
	w := newWorld(t)
	// The API server sets creation times by the real clock. The test's clock is a day behind, so CRDs that are created again now
	// are younger than all resources.
	w.clock.SetTime(time.Now().Add(-24 * time.Hour))
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
		w.eventually("the end of both Machines was observed", func() bool { return w.isEnd(gone) && w.isEnd(stays) })
		w.pass(t.Context())
		if w.metric("drover_orphans_aborted", string(verdict.Stale)) != 1 {
			t.Errorf("the report is %q", w.shown())
		}
	})
	inOrder(t, "the servers are reported and not deleted after the CRD was created again (MCM-82)", func(t *testing.T) {
		w.eventually("the definition exists again", func() bool { return deploy.Apply(t.Context(), w.client, "crds") == nil })
		w.eventually("there is a Machine", func() bool {
			one := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "new"}, Spec: stays.Spec}
			return w.client.Create(t.Context(), one) == nil
		})
		for range 4 {
			w.later()
		}
		if w.counts() != [3]int{2, 2, 2} || !strings.Contains(w.shown(), "only because a CRD was deleted") {
			t.Errorf("there are %v; the report is %q", w.counts(), w.shown())
		}
	})
}

// A second drover with the same cluster ID creates servers for Machines that this cluster does not have.
func TestAClonedClusterLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.watch()
	w.start()
	lives, _ := w.machine("b")
	clone := lives.DeepCopy()
	clone.Name, clone.UID = "of-the-clone", "of-the-clone"
	made := w.server(clone)
	t.Run("the server of the clone is reported by this leader and the next, and what a Machine of this cluster has left is deleted (MCM-82, F-72, F-100)", func(t *testing.T) {
		w.remove(lives)
		w.later()
		w.eventually("the server of this cluster is deleted", func() bool { return w.counts()[0] == 1 })
		w.begin()
		w.watch()
		for range 3 {
			w.later()
		}
		if left := w.sim.Leftovers().Servers; !slices.Equal(left, []string{made.ID}) || !strings.Contains(w.shown(), made.ID) {
			t.Errorf("left are %v; the report is %q", left, w.shown())
		}
	})
}

// The etcd is restored to its state of yesterday. It lacks the Machines of all resources that were created since then.
func TestARestoredEtcdLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.watch()
	w.start()
	old, _ := w.machine("old")
	w.later()
	today, leaving := old.DeepCopy(), old.DeepCopy()
	today.Name, today.UID = "today", "today"
	leaving.Name, leaving.UID, leaving.DeletionTimestamp = "leaving", "leaving", &metav1.Time{Time: w.clock.Now()}
	kept, asked := w.server(today), w.server(leaving)
	t.Run("the servers of Machines that the watch lacks after an interruption are kept, also of one that was being deleted (MCM-82)", func(t *testing.T) {
		w.ends.observe(toolscache.DeletedFinalStateUnknown{Obj: today})
		w.ends.observe(toolscache.DeletedFinalStateUnknown{Obj: leaving})
		for range 3 {
			w.later()
		}
		for _, id := range []string{kept.ID, asked.ID} {
			if left := w.sim.Leftovers().Servers; !slices.Contains(left, id) || !strings.Contains(w.shown(), id) {
				t.Errorf("left are %v; the report is %q", left, w.shown())
			}
		}
	})
	t.Run("the end of a Machine that exists again is forgotten, also by a process that does not lead (MCM-82)", func(t *testing.T) {
		w.ends.observe(today)
		if _, known := w.ends.known()[today.UID]; !known {
			t.Fatal("the end was not observed")
		}
		if w.ends.exists(today); w.isEnd(today) {
			t.Error("the end is still known")
		}
	})
	t.Run("a person confirms by the project that the report names what it shows, and only that (MCM-82)", func(t *testing.T) {
		later := old.DeepCopy()
		later.Name, later.UID = "later", "later"
		unseen := w.server(later)
		w.confirm(verdict.Project(&cloud.Resource{Place: w.projects()[0].Place}))
		w.later()
		w.eventually("what the report showed is deleted", func() bool { return len(w.sim.Leftovers().Servers) == 2 })
		if left := w.sim.Leftovers().Servers; !slices.Contains(left, unseen.ID) {
			t.Errorf("left are %v", left)
		}
	})
}

func TestTheEndsOfMachinesThatAreRememberedAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.start()
	newestUID := func(n int) types.UID { return types.UID(strconv.Itoa(n)) }
	t.Run("a process remembers 10 000 ends and forgets the oldest, and stores the latest 1000 (MCM-82)", func(t *testing.T) {
		began := w.clock.Now()
		for n := range mostEnds + mostEnds/2 {
			uid := newestUID(n)
			w.ends.add(verdict.Ends{uid: {UID: uid, Place: "0123456789abcdef0123456789abcdef region", Time: began.Add(time.Duration(n) * time.Millisecond), Confirmed: true}})
		}
		known := w.ends.known()
		if _, last := known[newestUID(mostEnds+mostEnds/2-1)]; len(known) > mostEnds || len(known) < mostEnds/2 || !last {
			t.Errorf("knows %d; the last one: %v", len(known), last)
		}
		w.pass(t.Context())
		b, err := w.read(t.Context())
		w.must(err)
		_, last := b.ends[newestUID(mostEnds+mostEnds/2-1)]
		if size := len(w.stored().Data[endedKey]); len(b.ends) != mostStored || !last || size > 300<<10 {
			t.Errorf("stores %d in %d bytes; the last one: %v", len(b.ends), size, last)
		}
	})
	t.Run("nothing is deleted while what is stored cannot be read, and the metric shows it (MCM-82)", func(t *testing.T) {
		m, _ := w.machine("a")
		w.watch()
		w.remove(m)
		w.must(w.client.Patch(t.Context(), w.configMap(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"ended":"{"}}`))))
		if _, err := w.read(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the key") {
			t.Errorf("got %v", err)
		}
		w.later()
		if w.counts()[0] != 1 || w.metric("drover_orphans_aborted", string(verdict.Stale)) != 1 {
			t.Errorf("there are %v", w.counts())
		}
	})
}

// interrupted is a cloud during whose first list something else happens.
type interrupted struct {
	cloud.Cloud
	during sync.Once
	happen func()
}

func (i *interrupted) Tagged(ctx context.Context) []cloud.Project {
	i.during.Do(i.happen)
	return i.Cloud.Tagged(ctx)
}

func TestAPersonConfirmsWhileARoundReads(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.watch()
	w.start()
	m, _ := w.machine("a")
	w.machine("b")
	w.later()
	w.removeUnseen(m)
	w.Cloud = &interrupted{Cloud: w.cloud, happen: func() { w.confirm(string(m.UID)) }}
	w.later()
	w.eventually("the round reads the ConfigMap again, deletes what was confirmed and removes the confirmation (MCM-82)", func() bool {
		return w.counts()[0] == 1 && w.stored().Annotations[v1alpha1.AnnotationCollect] == ""
	})
	if w.metric("drover_orphans_aborted", string(verdict.Stale)) != 0 {
		t.Error("the round has failed")
	}
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
	w.eventually("one round was run", func() bool { return w.stored().UID != "" })
	w.remove(m)
	w.must(w.client.Delete(t.Context(), n))
	removed := w.clock.Now()
	inOrder(t, "deletes an orphan in the first round in which its Machine has been gone for 15 minutes (MCM-81)", func(t *testing.T) {
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
