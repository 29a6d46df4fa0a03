package machine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// born returns a bench with a startup taint. Its Machine is as a set creates it: it has its finalizers and the record of its
// project.
func born(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, func(m *v1alpha1.Machine) {
		owned(m)
		m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
		m.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"projectID":"p1"}`)}
	})
	b.cloud.project = "p1"
	o := b.options
	o.Nodes.Start.Taint = startup
	b.start(o)
	return b
}

// passes reconciles the Machine n times, a second apart, as in a cluster with many events.
func (b *bench) passes(n int) {
	b.t.Helper()
	for range n {
		b.pass()
		b.wait(time.Second)
	}
}

// inLine returns the error of a call to the cloud that was not sent, because drover's other calls go first.
func inLine() *fault.Error {
	err := fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "the network service is busy with other requests of ours; the next turn is in 3s")
	err.RetryAfter = 3 * time.Second
	return err
}

// reachesReady brings a Machine from its creation to Ready. The Machine is reconciled after each change of the server and of the Node.
func (b *bench) reachesReady() {
	b.t.Helper()
	b.cloud.queued = inLine()
	b.passes(5)
	b.cloud.queued = nil
	for _, shows := range []func(*fakeServer){
		func(*fakeServer) {},
		func(s *fakeServer) { s.record.Zone = "zone-a" },
		func(s *fakeServer) { s.HostID = "host-1" },
		b.cloud.active,
	} {
		if b.cloud.made > 0 {
			b.cloud.change("u", shows)
		}
		b.passes(2)
	}
	b.registersNow()
	b.passes(2)
	b.changes(func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintUninitialized })
	})
	b.passes(2)
	b.changes(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	b.passes(2)
	b.shown()
	b.hasStarted()
}

// took checks that there was at least one write and no more than the given number, that no write was refused, and that every
// write changed something.
func (b *bench) took(most int) {
	b.t.Helper()
	if n := b.written.all(); n == 0 || n > most || len(b.written.refused) > 0 || len(b.patches.idle) > 0 {
		b.t.Errorf("%d writes, want at most %d: %v; refused: %q; without change: %q", n, most, b.written.made, b.written.refused, b.patches.idle)
	}
	b.written = tally{}
}

func TestTheLifeOfAMachineTakesFewWrites(t *testing.T) {
	b := born(t)
	b.reachesReady()
	t.Logf("writes: %v", b.written.made)
	inOrder(t, "the Machine controller makes at most 7 writes until a new Machine is Ready, and the API server refuses none of them (F-57)", func(t *testing.T) {
		b.t = t
		b.took(7)
		m := b.read()
		if m.Spec.ProviderID == nil || m.Status.NodeRef == nil || len(m.Status.Addresses) == 0 || find(m, v1alpha1.ConditionServerReady).Status != corev1.ConditionTrue {
			t.Errorf("%+v", m)
		}
		if n := b.node(); n.Annotations[v1alpha1.AnnotationOwnedBy] != "u" || n.Labels[v1alpha1.LabelManaged] != "true" || n.Annotations[v1alpha1.AnnotationNodeMachine] != "ns/m" {
			t.Errorf("%+v", n.ObjectMeta)
		}
		b.noTokens()
	})
	inOrder(t, "the Machine controller makes at most 3 writes to delete the Machine, and the API server refuses none of them (F-57)", func(t *testing.T) {
		b.t = t
		b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		b.cloud.slow, b.cloud.unreleased = true, true
		b.end()
		b.passes(3)
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.passes(3)
		b.cloud.unreleased = false
		b.passes(2)
		b.took(3)
		if m := b.read(); m.Name != "" || b.node().Name != "" {
			t.Errorf("machine %q, node %q are left", m.Name, b.node().Name)
		}
	})
}

func TestAChangeThatIsNotUrgentIsWrittenLater(t *testing.T) {
	b := born(t)
	b.pass()
	b.cloud.change("u", b.cloud.active)
	before := b.read().ResourceVersion
	inOrder(t, "waits before it writes that the server is ACTIVE, and requeues the Machine (F-57)", func(t *testing.T) {
		if after := b.pass().RequeueAfter; after <= 0 || after > longestUnwritten || b.read().ResourceVersion != before {
			t.Errorf("the next reconcile is after %v; version %s, then %s", after, before, b.read().ResourceVersion)
		}
	})
	inOrder(t, "writes that the server is ACTIVE when no other write was due meanwhile (F-57)", func(t *testing.T) {
		b.wait(longestUnwritten)
		b.pass()
		if c := find(b.read(), v1alpha1.ConditionServerReady); c.Status != corev1.ConditionTrue || c.Reason != "ServerActive" {
			t.Errorf("%+v", c)
		}
	})
}

func TestConditionServerReadyIsTrueForAReadyNodeEvenIfTheCloudsListShowsBUILD(t *testing.T) {
	b := born(t)
	b.passes(2)
	b.cloud.change("u", func(s *fakeServer) {
		b.cloud.active(s)
		s.State, s.Status = cloud.ServerBuilding, "BUILD"
	})
	b.registersNow()
	b.passes(2)
	b.changes(func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintUninitialized })
		n.Status.Conditions[0].Status = corev1.ConditionTrue
	})
	b.passes(2)
	before := b.read()
	if c := find(before, v1alpha1.ConditionServerReady); c.Status != corev1.ConditionTrue || c.Reason != "ServerActive" {
		t.Errorf("while the list still says BUILD: %+v", c)
	}
	b.cloud.change("u", b.cloud.active)
	b.passes(2)
	b.wait(longestUnwritten)
	b.passes(2)
	if after := b.read(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the list that says ACTIVE costs a write (F-57):\n%s", cmp.Diff(before.Status, after.Status))
	}
}

// The group's back-off holds at most 1024 bytes of the message.
func TestALongErrorStaysCompleteInAMachinesStatusDuringABackOff(t *testing.T) {
	for owner, change := range map[string]func(*v1alpha1.Machine){
		"a Machine of a deployment": deployed, "a Machine of a set without a deployment": owned, "a standalone Machine": nil,
	} {
		t.Run(owner+" keeps the complete error, and further reconciles of the Machine write nothing and emit no Event (F-45)", func(t *testing.T) {
			b := newBench(t, change)
			long := "the flavor is unknown; " + strings.Repeat("ä", 2000) + "; use another one"
			b.cloud.full = fault.New(fault.Invalid, fault.CodeFlavorNotFound, "%s", long)
			b.pass()
			before := b.read()
			if ptr.Deref(before.Status.ErrorMessage, "") != long {
				t.Fatalf("after the failure the message is %q", ptr.Deref(before.Status.ErrorMessage, ""))
			}
			_ = b.events()
			b.passes(5)
			if after := b.read(); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the reconciles during the back-off wrote the Machine (-before +after):\n%s", cmp.Diff(before.Status, after.Status))
			}
			if events := b.events(); events != "" {
				t.Errorf("the reconciles during the back-off emitted %s", events)
			}
		})
	}
}

func TestAMachineThatWaitsForDroversOtherCloudCallsIsNotShownAsFailed(t *testing.T) {
	b := born(t)
	b.cloud.queued = inLine()
	inOrder(t, "writes nothing, and requeues the Machine after the time for which its cloud call must wait (F-57)", func(t *testing.T) {
		for range 3 {
			if after := b.pass().RequeueAfter; after != 3*time.Second {
				t.Errorf("the next reconcile is after %v", after)
			}
		}
		if n := b.written.made["patch *v1alpha1.Machine"]; n != 0 {
			t.Errorf("%d writes of the Machine: %+v", n, b.read().Status)
		}
	})
	inOrder(t, "shows in condition ServerReady when a longer wait is due to other calls of drover, and reports no error (F-57)", func(t *testing.T) {
		b.shown()
		m := b.read()
		if c := find(m, v1alpha1.ConditionServerReady); !strings.Contains(c.Message, "other calls of drover") || m.Status.ErrorReason != nil {
			t.Errorf("%+v, error %v", c, ptr.Deref(m.Status.ErrorReason, ""))
		}
		if o := m.Status.LastOperation; o == nil || *o.State != "Processing" {
			t.Errorf("last operation %+v", o)
		}
	})
	inOrder(t, "creates the server at once when it is the Machine's turn (F-57)", func(t *testing.T) {
		b.cloud.queued = nil
		if b.pass(); b.cloud.made != 1 {
			t.Errorf("%d servers", b.cloud.made)
		}
	})
	inOrder(t, "does not show the cloud's rate limit as a failed operation (F-57)", func(t *testing.T) {
		b := born(t)
		b.cloud.full = fault.New(fault.RateLimited, fault.CodeRateLimited, "the compute service asked drover to send no requests until 2026-01-02T03:04:35Z")
		b.shown()
		if m := b.read(); m.Status.ErrorReason != nil || m.Status.LastOperation == nil || *m.Status.LastOperation.State != "Processing" {
			t.Errorf("%+v", m.Status)
		}
	})
	inOrder(t, "waits for its turn in a forced deletion, and does not leave the server behind (F-57)", func(t *testing.T) {
		b := born(t)
		b.pass()
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.cloud.refusal = inLine()
		b.end()
		b.passes(3)
		if b.read().Name == "" || b.cloud.servers["u"].State == cloud.ServerDeleting {
			t.Error("the Machine was let go although its server is there")
		}
	})
}

func TestACacheWithoutDroversLastWriteIsNotUsedInTheFirstMinute(t *testing.T) {
	b := born(t)
	b.cached = b.read()
	b.pass()
	b.cloud.change("u", b.cloud.active)
	made := b.written.all()
	inOrder(t, "drover writes nothing, and requeues the Machine, while the cache does not show drover's last write (F-57)", func(t *testing.T) {
		if after := b.pass().RequeueAfter; after <= 0 || after > 10*time.Second || b.written.all() != made || len(b.written.refused) > 0 {
			t.Errorf("the next reconcile is after %v; writes %v, refused %q", after, b.written.made, b.written.refused)
		}
	})
	inOrder(t, "the cache is used after a minute, because a backup of etcd may have been restored (F-57)", func(t *testing.T) {
		b.wait(time.Minute + time.Second)
		b.pass()
		if b.written.all() == made {
			t.Error("nothing was tried")
		}
	})
}

func TestACacheWithADeletedMachine(t *testing.T) {
	t.Run("a cache that still shows a deleted Machine causes no write (F-57)", func(t *testing.T) {
		b := born(t)
		b.pass()
		b.end()
		b.pass()
		b.cached = b.read()
		b.pass()
		before := b.written.all()
		b.passes(3)
		b.cached = nil
		if m := b.read(); m.Name != "" || b.written.all() != before || len(b.written.refused) > 0 {
			t.Errorf("machine %q; %d writes, then %v; refused %q", m.Name, before, b.written.made, b.written.refused)
		}
	})
}
