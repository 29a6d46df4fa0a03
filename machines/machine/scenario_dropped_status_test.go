package machine_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// replaced writes the whole Machine without its status and its provider ID, like a client that does not know these fields. It
// returns the Machine as it was before the write.
func (b *bench) replaced() *v1alpha1.Machine {
	b.t.Helper()
	before := b.read()
	m := before.DeepCopy()
	m.Status, m.Spec.ProviderID = v1alpha1.MachineStatus{}, nil
	b.update(m)
	return before
}

// phases lists phases in the life of a Machine. reached returns a bench whose Machine is in that phase.
var phases = []struct {
	name    string
	reached func(t *testing.T) *bench
}{
	{"while the Machine's server is being built", func(t *testing.T) *bench {
		b := born(t)
		b.shown()
		return b
	}},
	{"while the Machine's Node is awaited", func(t *testing.T) *bench {
		b := born(t)
		b.pass()
		b.cloud.change("u", b.cloud.active)
		b.shown()
		return b
	}},
	{"while the Machine is Running", func(t *testing.T) *bench {
		b := born(t)
		b.reachesReady()
		return b
	}},
	{"while the Machine's Node is drained", func(t *testing.T) *bench {
		b := born(t)
		b.reachesReady()
		b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		b.create(stubborn("p"))
		b.end()
		b.shown()
		return b
	}},
	{"while the Machine's server is being deleted", func(t *testing.T) *bench {
		b := born(t)
		b.reachesReady()
		b.cloud.slow = true
		b.end()
		b.shown()
		return b
	}},
}

// isWhole checks that the Machine has its server and its Node as before, that no other server was created, and that nothing was
// deleted.
func (b *bench) isWhole(t *testing.T, before *v1alpha1.Machine, node *corev1.Node) {
	t.Helper()
	m := b.read()
	if b.cloud.made != 1 || m.Spec.ProviderID == nil || *m.Spec.ProviderID != *before.Spec.ProviderID || b.node().UID != node.UID {
		t.Errorf("%d servers, provider ID %v, node %s", b.cloud.made, m.Spec.ProviderID, b.node().UID)
	}
	if before.DeletionTimestamp == nil && (m.Name == "" || m.DeletionTimestamp != nil || b.cloud.count("DeleteServer") != 0) {
		t.Errorf("it is being deleted: %+v", m.ObjectMeta)
	}
}

// endsCleanly deletes the Machine, lets the deletion finish, and checks that nothing is left.
func (b *bench) endsCleanly(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{}
	if b.memory.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pod) == nil {
		pod.Finalizers = nil
		b.update(pod)
	}
	if b.read().DeletionTimestamp == nil {
		b.end()
	}
	b.cloud.slow = false
	for range 8 {
		b.pass()
		b.wait(15 * time.Second)
	}
	s := b.cloud.servers["u"]
	if m := b.read(); m.Name != "" || s.exists || s.leftovers || b.node().Name != "" {
		t.Errorf("machine %q, server %v with leftovers %v, node %q are left", m.Name, s.exists, s.leftovers, b.node().Name)
	}
	b.noTokens()
}

func TestAStatusThatAClientRemovedIsRestored(t *testing.T) {
	for _, phase := range phases {
		t.Run("drover restores a status that a client removed "+phase.name+" (F-5)", func(t *testing.T) {
			b := phase.reached(t)
			before, node := b.replaced(), b.node()
			b.pass()
			if m := b.read(); !equality.Semantic.DeepEqual(m.Status, before.Status) {
				t.Errorf("the status is\n%+v\nand was\n%+v", m.Status, before.Status)
			}
			b.isWhole(t, before, node)
			b.endsCleanly(t)
		})
		t.Run("a restarted drover finds the server although a client removed the status "+phase.name+" (F-5)", func(t *testing.T) {
			b := phase.reached(t)
			before, node := b.replaced(), b.node()
			o := b.options
			b.start(o)
			b.shown()
			b.isWhole(t, before, node)
			if m := b.read(); (m.Status.NodeRef == nil) != (before.Status.NodeRef == nil || before.DeletionTimestamp != nil) {
				t.Errorf("node %+v, before %+v", m.Status.NodeRef, before.Status.NodeRef)
			}
			b.endsCleanly(t)
		})
	}
	t.Run("restoring a removed status costs one write, and no further write while nothing changes (F-5)", func(t *testing.T) {
		b := born(t)
		b.reachesReady()
		b.replaced()
		b.written = tally{}
		b.passes(3)
		b.took(1)
	})
	t.Run("the removed status of a paused Machine is restored only when the pause ends (F-5)", func(t *testing.T) {
		b := born(t)
		b.reachesReady()
		b.annotate("cluster.k8s.io/paused", "true")
		b.passes(2)
		before := b.replaced()
		b.written = tally{}
		b.passes(2)
		if n := b.written.all(); n != 0 {
			t.Errorf("%d writes: %v", n, b.written.made)
		}
		m := b.read()
		delete(m.Annotations, "cluster.k8s.io/paused")
		b.update(m)
		b.pass()
		if m := b.read(); !equality.Semantic.DeepEqual(m.Status, before.Status) {
			t.Errorf("the status is\n%+v\nand was\n%+v", m.Status, before.Status)
		}
	})
	t.Run("an error that drover itself removed from the status is not restored (F-5)", func(t *testing.T) {
		b := born(t)
		b.cloud.full = fault.New(fault.Transient, fault.CodeUnknown, "no answer")
		b.shown()
		if b.read().Status.ErrorReason == nil {
			t.Fatal("no error is shown")
		}
		b.cloud.full = nil
		b.wait(time.Minute)
		b.passes(2)
		b.shown()
		if m := b.read(); m.Status.ErrorReason != nil {
			t.Errorf("the error is back: %+v", m.Status)
		}
	})
}

func TestDeadlinesDoNotChangeWhenAClientRemovesTheStatus(t *testing.T) {
	t.Run("the drain ends at its original deadline although the status was removed (F-5)", func(t *testing.T) {
		b := joined(t, nil)
		b.create(stubborn("p"))
		b.end()
		b.pass()
		b.drains(time.Hour)
		b.replaced()
		b.drains(time.Hour - time.Second)
		if b.cloud.count("DeleteServer") != 0 {
			t.Error("the drain was cut off early")
		}
		b.drains(2 * time.Second)
		if b.cloud.count("DeleteServer") != 1 {
			t.Error("the drain was not cut off at its deadline")
		}
	})
	t.Run("the wait for volumes ends at its original deadline although the status was removed (F-5)", func(t *testing.T) {
		b := joined(t, nil)
		b.attach("pv-1")
		b.end()
		b.pass()
		if c := b.deleting(); c.Reason != "WaitingForVolumes" {
			t.Fatalf("%+v", c)
		}
		b.wait(4 * time.Minute)
		b.replaced()
		b.pass()
		b.wait(time.Minute + time.Second)
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("the server is still waiting for volumes: %+v", b.deleting())
		}
	})
}

// A client replaces the whole Machine during a reconcile, so that the reconcile's own write fails with a conflict.
func TestAStatusThatAClientRemovedDuringAReconcileIsRestored(t *testing.T) {
	b := born(t)
	b.reachesReady()
	m := b.read()
	record := `{"volumeIDs":["11111111-1111-4111-8111-111111111111"],` + string(m.Status.ProviderStatus.Raw[1:])
	m.Status.ProviderStatus.Raw = []byte(record)
	b.update(m)
	b.shown()
	before := b.read()
	n := b.node()
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := b.memory.client.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	dropped := false
	b.patches.before = func(o client.Object) error {
		if _, ok := o.(*v1alpha1.Machine); ok && !dropped {
			dropped = true
			b.replaced()
		}
		return nil
	}
	b.pass()
	b.patches.before = nil
	b.shown()
	t.Run("recorded volume IDs and times of conditions, which no list of the cloud contains, are restored (F-5)", func(t *testing.T) {
		after := b.read()
		if !dropped || !strings.Contains(string(after.Status.ProviderStatus.Raw), "11111111-1111-4111-8111-111111111111") {
			t.Errorf("dropped %v; the record is %s, and was %s", dropped, after.Status.ProviderStatus.Raw, before.Status.ProviderStatus.Raw)
		}
		valid, was := find(after, v1alpha1.ConditionSpecValid), find(before, v1alpha1.ConditionSpecValid)
		if !valid.LastTransitionTime.Equal(was.LastTransitionTime) {
			t.Errorf("SpecValid since %v, and was since %v", valid.LastTransitionTime, was.LastTransitionTime)
		}
	})
}
