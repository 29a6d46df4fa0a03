package machine_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestDeletionOfAMachineBeforeItsServerWorks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(b *bench)
		// servers is the number of servers that were made, each of which must be deleted.
		servers int
	}{
		{"ends without a wait when the server is in ERROR (report 28)", func(b *bench) {
			b.pass()
			b.cloud.change("u", func(s *fakeServer) {
				s.State, s.Status, s.Fault = cloud.ServerError, "ERROR", fault.New(fault.Unknown, fault.CodeServerError, "the host caught fire")
			})
		}, 1},
		{"ends without a wait while the server is being made (report 28)", func(b *bench) { b.pass() }, 1},
		{"ends without a wait when the cloud has refused each server (report 39)", func(b *bench) {
			b.cloud.full = fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for instances")
			b.pass()
		}, 0},
		{"ends without a wait when not even the ports could be made (report 39)", func(b *bench) {
			b.cloud.queued = fault.New(fault.Invalid, fault.CodeNetworkNotFound, "there is no such network")
			b.pass()
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			tt.setup(b)
			b.end()
			for range 6 {
				b.pass()
			}
			if m := b.read(); m.Name != "" {
				t.Errorf("the Machine still exists: %+v", b.deleting())
			}
			if s := b.cloud.servers["u"]; b.cloud.made != tt.servers || s != nil && s.exists {
				t.Errorf("%d servers were made, want %d; the last is %+v", b.cloud.made, tt.servers, s)
			}
		})
	}
}

func TestAMachineStaysWhileItsServerExists(t *testing.T) {
	t.Run("however long the deletion of the server takes and although its Node is gone, and ends when the server is gone (report 47, report 48)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.slow = true
		b.remove(b.node())
		b.end()
		for range 20 {
			b.pass()
			b.wait(time.Hour)
			b.restart()
		}
		if b.read().Name == "" || b.cloud.count("Release") != 0 || b.cloud.count("DeleteServer") == 0 {
			t.Fatalf("the Machine is %q, with %d requests for the server's deletion and %d releases of its ports", b.read().Name, b.cloud.count("DeleteServer"), b.cloud.count("Release"))
		}
		b.cloud.change("u", func(s *fakeServer) { s.exists = false })
		b.pass()
		b.pass()
		if b.read().Name != "" {
			t.Errorf("the Machine still exists: %+v", b.deleting())
		}
	})
}

func TestANodeThatRegistersWhileItsMachineIsDeleted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		marked bool
		when   func(b *bench, register func())
	}{
		{"is deleted with the Machine when it registers just before the server's deletion (report 109)", false, func(b *bench, register func()) { b.cloud.onDelete = register }},
		{"is deleted with the Machine when it registers in the moment in which the server goes (report 109)", false, func(b *bench, register func()) { b.cloud.onGone = func(string) { register() } }},
		{"is deleted with the Machine although it was annotated as a Node without a Machine (report 110)", true, func(b *bench, register func()) { b.cloud.onGone = func(string) { register() } }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.pass()
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.pass()
			node, registered := b.nodeOf(), false
			if tt.marked {
				node.Annotations = map[string]string{v1alpha1.AnnotationUnmanaged: "true"}
			}
			tt.when(b, func() {
				if !registered {
					registered = true
					b.create(node)
				}
			})
			b.end()
			for range 10 {
				b.pass()
				b.wait(5 * time.Second)
			}
			if !registered || b.read().Name != "" || b.node().Name != "" {
				t.Errorf("registered: %v, the Machine is %q (%+v), the Node is %q", registered, b.read().Name, b.deleting(), b.node().Name)
			}
		})
	}
}

func TestDeletionOfANodeThatTheAPIServerRefusesForAnHour(t *testing.T) {
	t.Run("is tried until the Node is gone, and the Machine stays until then (report 112)", func(t *testing.T) {
		b := joined(t, nil)
		tries := 0
		b.failing = func(call string) error {
			if call != "DELETE *v1.Node" {
				return nil
			}
			tries++
			return apierrors.NewInternalError(errors.New("etcd is slow"))
		}
		try := func(times int) {
			for range times {
				b.written.counting = true
				_, _ = b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key})
				b.written.counting = false
				b.wait(30 * time.Second)
			}
		}
		b.end()
		try(120)
		if tries < 10 || b.node().Name == "" || b.read().Name == "" {
			t.Fatalf("%d tries in an hour, the Node is %q, the Machine %q", tries, b.node().Name, b.read().Name)
		}
		b.failing = nil
		try(20)
		if b.node().Name != "" || b.read().Name != "" {
			t.Errorf("the Node is %q, the Machine %q: %+v", b.node().Name, b.read().Name, b.deleting())
		}
	})
}

func TestDeletionWhileThePodOfADaemonSetUsesAVolume(t *testing.T) {
	t.Run("waits for the volume for five minutes at most, even when drover restarts in between (report 58)", func(t *testing.T) {
		b := joined(t, nil)
		b.attach("pv-1")
		b.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}})
		agent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent", UID: types.UID("agent"),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "d", Controller: ptr.To(true)}}}, Spec: corev1.PodSpec{NodeName: "m"}}
		agent.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		b.create(agent)
		b.end()
		b.drains(4 * time.Minute)
		b.restart()
		b.drains(2 * time.Minute)
		if n := b.cloud.count("DeleteServer"); n != 1 {
			t.Errorf("%d requests to delete the server after six minutes, want one: %+v", n, b.deleting())
		}
	})
}

func TestATaintThatAnotherProgramSetsWhileDroverWritesTheNode(t *testing.T) {
	t.Run("stays, although drover writes the list of taints that it has read before (report 26)", func(t *testing.T) {
		b := joined(t, owned)
		foreign, own := taint("example.com/foreign", corev1.TaintEffectNoSchedule), taint("example.com/own", corev1.TaintEffectNoSchedule)
		m := b.read()
		m.Spec.Taints, m.Spec.Metadata.Labels = []corev1.Taint{own}, map[string]string{"team": "a"}
		b.update(m)
		times := 0
		b.patches.before = func(o client.Object) error {
			if _, node := o.(*corev1.Node); node && times < 3 {
				times++
				n := b.node()
				n.Spec.Taints = append(n.Spec.Taints, taint(foreign.Key+strconv.Itoa(times), foreign.Effect))
				b.update(n)
			}
			return nil
		}
		for range 20 {
			b.written.counting = true
			_, _ = b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key})
			b.written.counting = false
			b.wait(30 * time.Second)
		}
		n := b.node()
		if times == 0 || !hasTaint(n, own.Key) || n.Labels["team"] != "a" {
			t.Fatalf("after %d writes the Node has the labels %v and the taints %v", times, n.Labels, n.Spec.Taints)
		}
		for k := range times {
			if !hasTaint(n, foreign.Key+strconv.Itoa(k+1)) {
				t.Errorf("the taint %s%d is lost: %v", foreign.Key, k+1, n.Spec.Taints)
			}
		}
	})
}

func TestANodeWithAFinalizerOfAFormerController(t *testing.T) {
	t.Run("does not hold the deletion of its Machine without a word (report 111)", func(t *testing.T) {
		b := joined(t, nil)
		b.changes(func(n *corev1.Node) { n.Finalizers = append(n.Finalizers, "example.com/former") })
		b.end()
		for range 40 {
			b.pass()
			b.wait(time.Minute)
		}
		if m := b.read(); m.Name != "" && !strings.Contains(b.deleting().Message, "example.com/former") {
			t.Errorf("the Machine still exists, and shows %+v", b.deleting())
		}
	})
}

func TestAServerThatSomebodyElseDeletes(t *testing.T) {
	for name, task := range map[string]bool{
		"its Machine is replaced when the server is gone, although drover restarts all the time (report 104, report 105)": false,
		"its Machine shows that the cloud deletes the server, and is replaced when it is gone (report 36)":                true,
	} {
		t.Run(name, func(t *testing.T) {
			b := joined(t, owned)
			if task {
				b.cloud.change("u", func(s *fakeServer) { s.State, s.Status = cloud.ServerDeleting, "ACTIVE" })
				b.shown()
				if c := b.serverReady(); c.Status != corev1.ConditionFalse || c.Reason != "ServerDeleting" || b.read().DeletionTimestamp != nil {
					t.Errorf("while the task runs, the Machine shows %+v", c)
				}
			}
			b.cloud.change("u", func(s *fakeServer) { s.exists = false })
			for range 6 {
				b.restart()
				b.pass()
				b.wait(5 * time.Second)
			}
			if b.read().Name != "" || b.node().Name != "" || b.cloud.made != 1 {
				t.Errorf("the Machine is %q, the Node %q, and %d servers were made for it", b.read().Name, b.node().Name, b.cloud.made)
			}
		})
	}
}

func TestTheNodeOfAServerThatIsShutDown(t *testing.T) {
	t.Run("is kept for days while its server exists, so that its volumes are not taken away (report 38)", func(t *testing.T) {
		b := wontStart(t)
		node := b.node()
		b.attach("pv-1")
		for range 50 {
			b.wait(time.Hour)
			b.pass()
		}
		if now := b.node(); now.UID != node.UID || outOfService(now) || b.cloud.count("DeleteServer") != 0 {
			t.Errorf("the Node was %+v, now it is %+v", node.Spec, now.Spec)
		}
	})
}
