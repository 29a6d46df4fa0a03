package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// joined returns a bench whose Machine has a Ready Node. The cluster also has another Node.
func joined(t *testing.T, change func(*v1alpha1.Machine)) *bench {
	t.Helper()
	b := newBench(t, change)
	b.join()
	return b
}

// join makes the Machine's server a Ready Node.
func (b *bench) join() {
	b.t.Helper()
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.pass()
	b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	b.create(b.nodeOf())
	b.pass()
	if !isReady(b.read()) {
		b.t.Fatalf("status %+v", b.read().Status)
	}
}

func (b *bench) nodeOf() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: types.UID(fmt.Sprint("node-", b.clock.Now().Unix()))}, Spec: corev1.NodeSpec{ProviderID: *b.read().Spec.ProviderID},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(b.clock.Now())}}}}
}

func (b *bench) create(o client.Object) {
	b.t.Helper()
	if err := b.memory.client.Create(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) update(o client.Object) {
	b.t.Helper()
	if err := b.memory.client.Update(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(o client.Object) {
	b.t.Helper()
	if err := b.memory.client.Delete(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// end deletes the Machine. It also sets the test's clock to the deletion timestamp, which the API server takes from its own clock.
func (b *bench) end() {
	b.t.Helper()
	b.remove(b.read())
	b.clock.SetTime(b.read().DeletionTimestamp.Time)
}

func (b *bench) wait(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// drains advances the clock by d, and reconciles the Machine every 30 seconds meanwhile and once at the end.
func (b *bench) drains(d time.Duration) {
	b.t.Helper()
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); b.pass() {
		b.wait(min(30*time.Second, end.Sub(b.clock.Now())))
	}
}

func (b *bench) node() *corev1.Node {
	b.t.Helper()
	n := &corev1.Node{}
	if err := b.memory.client.Get(b.t.Context(), client.ObjectKey{Name: "m"}, n); err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
	return n
}

// annotate sets an annotation of the Machine.
func (b *bench) annotate(key, value string) {
	m := b.read()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, value)
	b.update(m)
}

// stubborn returns a pod that never terminates: its evictions are granted, but the pod stays.
func stubborn(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Finalizers: []string{"example.com/stays"}}, Spec: corev1.PodSpec{NodeName: "m"}}
}

func (b *bench) deleting() v1alpha1.MachineCondition {
	return find(b.read(), v1alpha1.ConditionDeleting)
}

func (b *bench) events() string {
	var all []string
	for len(b.memory.events.Events) > 0 {
		all = append(all, <-b.memory.events.Events)
	}
	return strings.Join(all, "\n")
}

// attach attaches a volume to the Machine's Node.
func (b *bench) attach(volume string) *storagev1.VolumeAttachment {
	b.t.Helper()
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "m", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
	b.create(a)
	return a
}

func TestDeletionWaitsAtMostFiveMinutesForVolumes(t *testing.T) {
	t.Run("keeps the server while volumes are being detached, and condition Deleting names the volumes (MC-61, CAPI-37)", func(t *testing.T) {
		b := joined(t, nil)
		a := b.attach("pv-1")
		b.end()
		b.pass()
		if c := b.deleting(); c.Reason != "WaitingForVolumes" || !strings.Contains(c.Message, "pv-1") || b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("%+v", c)
		}
		b.remove(a)
		b.wait(5 * time.Second)
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("deletes the server after five minutes although a volume is attached, even when drover restarts (MC-61)", func(t *testing.T) {
		b := joined(t, nil)
		b.attach("pv-1")
		b.end()
		b.pass()
		b.wait(5*time.Minute - time.Second)
		b.restart()
		b.pass()
		if b.cloud.count("DeleteServer") != 0 {
			t.Fatalf("%+v", b.deleting())
		}
		b.wait(10 * time.Second)
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("%+v", b.deleting())
		}
	})
}

func TestDeletionOfAMachineWhoseNodeIsUnreachable(t *testing.T) {
	t.Run("does not wait for pods, and puts the Node out of service once the server is gone (CAPI-39, MCM-56)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		a := b.attach("pv-1")
		n := b.node()
		n.Status.Conditions[0].Status = corev1.ConditionUnknown // the last transition is long ago by the API server's clock
		if err := b.memory.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		b.end()
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Fatalf("%+v", b.deleting())
		}
		if outOfService(b.node()) {
			t.Fatal("the Node is out of service before its server is known to be gone")
		}
		b.pass()
		if c := b.deleting(); !outOfService(b.node()) || c.Reason != "WaitingForVolumes" {
			t.Fatalf("%+v, %+v", b.node().Spec, c)
		}
		b.remove(a)
		b.pass()
		if m := b.read(); m.Name != "" || b.node().Name != "" {
			t.Errorf("Machine %+v, node %q", m, b.node().Name)
		}
	})
}

func TestDeletionOfAMachineWhoseKubeletReportsThatItIsNotReady(t *testing.T) {
	t.Run("the Node is drained like a Ready one: the budget counts, and pods and volumes are waited for (F-139)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.attach("pv-1")
		n := b.node()
		n.Status.Conditions[0].Status = corev1.ConditionFalse // since long ago by the API server's clock
		if err := b.memory.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		b.evicting = func(string) error { return refusedByBudget("The disruption budget guard") }
		b.end()
		b.drains(30 * time.Minute)
		if b.cloud.count("DeleteServer") != 0 || outOfService(b.node()) || b.deleting().Reason != "DrainingNode" {
			t.Errorf("%+v", b.deleting())
		}
	})
}

func outOfService(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService && taint.Effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

func TestSafeguardsOfADeletion(t *testing.T) {
	t.Run("a copy of a Machine neither uses nor deletes the server of the original", func(t *testing.T) {
		b := joined(t, nil)
		original := b.read()
		twin := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "twin", UID: "twin"}, Spec: *original.Spec.DeepCopy()}
		twin.Spec.Metadata.Name = "twin"
		b.create(twin)
		b.cloud.share("twin", "u")
		b.key = client.ObjectKeyFromObject(twin)
		b.pass()
		m := b.read()
		if m.Status.NodeRef != nil || !strings.Contains(ptr.Deref(m.Status.ErrorMessage, ""), "belongs to the Machine with UID u") {
			t.Fatalf("%+v", m.Status)
		}
		b.end()
		b.pass()
		if b.cloud.count("DeleteServer") != 0 || b.read().Name != "" || b.node().Name == "" {
			t.Errorf("%d deletions, Machine %q, node %q", b.cloud.count("DeleteServer"), b.read().Name, b.node().Name)
		}
	})
	t.Run("a Machine with a Ready Node is kept while too many servers are lost, a condition shows the reason, and a person can delete it (F-59)", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.cloud.held = "12 of 20 servers of the project are gone"
		b.pass()
		if m := b.read(); m.DeletionTimestamp != nil || !strings.HasPrefix(find(m, v1alpha1.ConditionServerReady).Message, b.cloud.held) {
			t.Fatalf("%+v", m)
		}
		b.end()
		b.pass()
		if b.read().Name != "" || b.cloud.count("Release") == 0 || b.node().Name != "" {
			t.Errorf("%+v", b.deleting())
		}
	})
	t.Run("a Machine whose Node is not Ready is replaced however many servers are lost (F-59)", func(t *testing.T) {
		b := joined(t, owned)
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.cloud.held = "12 of 20 servers of the project are gone"
		b.nodeReady(corev1.ConditionUnknown)
		b.pass()
		if m := b.read(); m.Name != "" && m.DeletionTimestamp == nil {
			t.Errorf("%+v", m.Status.Conditions)
		}
	})
}

func TestForcedDeletionInAWorkingCloudAndInARefusingCloud(t *testing.T) {
	t.Run("when the cloud works, nothing is left behind, and no Event reports that something may be left (MC-65)", func(t *testing.T) {
		b := joined(t, nil)
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.end()
		b.pass()
		b.pass()
		if b.read().Name != "" || b.cloud.count("DeleteServer") != 1 || b.cloud.count("Release") != 1 || strings.Contains(b.events(), "may be left") {
			t.Errorf("%+v", b.read())
		}
	})
	t.Run("when the cloud refuses to delete the server, the deletion ends, and an Event names that server (MC-65)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.refusal = fault.New(fault.Auth, fault.CodeForbidden, "you may not")
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.end()
		b.pass()
		if got := b.events(); b.read().Name != "" || strings.Count(got, "may be left") != 1 || !strings.Contains(got, "00000000-0000-4000-8000-000000000001") {
			t.Errorf("%s", got)
		}
	})
}

func TestMachinesWithoutAServerOrWithoutAnImage(t *testing.T) {
	t.Run("a Machine that is being deleted and has no server is kept until its ports are deleted (MCM-102, MCM-106)", func(t *testing.T) {
		b := newBench(t, nil)
		b.cloud.full = fault.New(fault.Quota, fault.CodeQuotaExceeded, "no more cores")
		b.cloud.unreleased = true
		b.pass()
		b.end()
		b.pass()
		if c := b.deleting(); c.Reason != "ReleasingResources" || c.Message == "" {
			t.Fatalf("%+v", c)
		}
		b.cloud.unreleased = false
		b.pass()
		if b.read().Name != "" || b.cloud.count("Release") != 2 || b.cloud.count("DeleteServer") != 0 {
			t.Errorf("%+v", b.read())
		}
	})
	t.Run("a Ready Machine stays Ready when its image is deleted (CAPI-30)", func(t *testing.T) {
		b := joined(t, owned)
		before := b.read().ResourceVersion
		b.cloud.refuse["m"] = fault.New(fault.Invalid, fault.CodeImageNotFound, "no such image")
		b.pass()
		if m := b.read(); !isReady(m) || m.DeletionTimestamp != nil || m.Status.ErrorReason != nil {
			t.Errorf("before %s, now %+v", before, m)
		}
	})
}

func TestAMissingNodeIsShown(t *testing.T) {
	t.Run("condition Ready shows that the Node is missing, and becomes True when the Node has registered again", func(t *testing.T) {
		b := joined(t, owned)
		b.remove(b.node())
		b.pass()
		if c := find(b.read(), v1alpha1.ConditionReady); c.Reason != "NodeMissing" || b.read().DeletionTimestamp != nil {
			t.Fatalf("%+v", c)
		}
		b.wait(time.Minute)
		again := b.nodeOf()
		b.create(again)
		b.pass()
		if m := b.read(); !isReady(m) || m.Status.NodeRef.UID != again.UID {
			t.Errorf("%+v", m.Status)
		}
	})
}

func TestTheLifeOfAMachineWithABlockedDrainTakesFewWrites(t *testing.T) {
	b := joined(t, owned)
	inOrder(t, "drover makes at most five writes from the creation of the Machine to Ready, and writes no value twice", func(t *testing.T) {
		if n := b.patches.count["*v1alpha1.Machine"]; n == 0 || n > 5 || b.patches.count["*v1.Node"] != 1 || len(b.patches.idle) > 0 {
			t.Errorf("%v; without change: %v", b.patches.count, b.patches.idle)
		}
	})
	inOrder(t, "drover writes the message of a blocked drain once, however often it retries the drain", func(t *testing.T) {
		b.create(stubborn("p"))
		b.end()
		b.drains(2 * time.Minute) // after a minute the pod that does not end is named
		before := b.patches.count["*v1alpha1.Machine"]
		for range 100 {
			b.wait(10 * time.Second)
			b.pass()
		}
		if n := b.patches.count["*v1alpha1.Machine"] - before; n != 0 || len(b.patches.idle) > 0 {
			t.Errorf("%d writes; without change: %v", n, b.patches.idle)
		}
	})
	inOrder(t, "drover makes at most two writes between the end of the blocked drain and the end of the Machine", func(t *testing.T) {
		before := b.patches.count["*v1alpha1.Machine"]
		b.annotate(v1alpha1.AnnotationDrainTimeout, "1s")
		for range 4 {
			b.pass()
		}
		if n := b.patches.count["*v1alpha1.Machine"] - before; b.read().Name != "" || n > 2 || len(b.patches.idle) > 0 {
			t.Errorf("%d writes; without change: %v", n, b.patches.idle)
		}
	})
}

// refusedByBudget returns the API server's answer to an eviction that a disruption budget forbids. words are the text of the
// cause. They are empty for a pod that may be evicted; the answer is then nil.
func refusedByBudget(words string) error {
	if words == "" {
		return nil
	}
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: words})
	return err
}

func TestABlockedDrainRecordsEvents(t *testing.T) {
	b := joined(t, nil)
	b.create(stubborn("p"))
	b.create(stubborn("q"))
	guarded := map[string]string{"p": "The disruption budget guard needs 1 healthy pods and has 1 currently"}
	b.evicting = func(pod string) error { return refusedByBudget(guarded[pod]) }
	b.end()
	looks := func(n int) string {
		for range n {
			b.wait(time.Minute)
			b.pass()
		}
		return b.events()
	}
	inOrder(t, "records one Event when the drain is first blocked, one when a pod does not end, and none per retry (F-46, F-143)", func(t *testing.T) {
		got := looks(20)
		if strings.Count(got, "DrainBlocked") != 2 || !strings.Contains(got, "pods do not leave the Node: ns/q: it has not ended") || !strings.Contains(got, "node m: evictions are refused: ns/p: The disruption budget guard") {
			t.Errorf("got %q", got)
		}
	})
	inOrder(t, "records no Event in a new process while nothing changes (F-46)", func(t *testing.T) {
		b.restart()
		if got := looks(5); strings.Contains(got, "DrainBlocked") {
			t.Errorf("got %q", got)
		}
	})
	inOrder(t, "records another Event when the eviction of another pod is refused (F-46)", func(t *testing.T) {
		b.create(stubborn("r"))
		guarded["r"] = "The disruption budget other needs 1 healthy pods and has 1 currently"
		if got := looks(20); strings.Count(got, "DrainBlocked") != 1 || !strings.Contains(got, "ns/r: The disruption budget other") {
			t.Errorf("got %q", got)
		}
	})
}
