package machine_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// late makes the Machine's server ACTIVE and lets its join deadline pass.
func (b *bench) late() {
	b.t.Helper()
	b.pass()
	b.cloud.change(b.read().UID, func(s *fakeServer) { b.cloud.active(s) })
	b.pass()
	b.wait(10 * time.Minute)
	b.pass()
}

// pool returns the MachineDeployment.
func (b *bench) pool() *v1alpha1.MachineDeployment {
	b.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	if err := b.memory.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: "pool"}, d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

func TestAMachineWithoutAnOwnerAfterItsJoinTimeout(t *testing.T) {
	t.Run("shows the last console output in a condition and an Event, without the join token (CAPI-25)", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		var tokens corev1.SecretList
		if err := b.memory.client.List(t.Context(), &tokens, client.HasLabels{v1alpha1.LabelTokenMachine}); err != nil || len(tokens.Items) != 1 {
			t.Fatalf("%d tokens, %v", len(tokens.Items), err)
		}
		secret := string(tokens.Items[0].Data["token-secret"])
		b.cloud.console = "cloud-init: joining with " + secret + "\nkubelet: no route to host\n"
		b.late()
		m := b.read()
		c := find(m, v1alpha1.ConditionConsole)
		if !strings.Contains(c.Message, "no route to host") || strings.Contains(c.Message, secret) || !strings.Contains(b.events(), "no route to host") {
			t.Errorf("%+v", c)
		}
		t.Run("an hour later, the Machine still has the phase Failed, and drover has not read its console again (MC-57)", func(t *testing.T) {
			b.wait(time.Hour)
			b.restart()
			b.pass()
			m := b.read()
			if m.DeletionTimestamp != nil || *m.Status.Phase != v1alpha1.PhaseFailed || b.cloud.count("ConsoleOutput") != 1 || b.cloud.count("DeleteServer") != 0 {
				t.Errorf("%d looks at the console, %+v", b.cloud.count("ConsoleOutput"), m.Status)
			}
		})
		t.Run("the Machine becomes Ready when its Node registers after the join timeout", func(t *testing.T) {
			b.create(b.nodeOf())
			b.pass()
			if !isReady(b.read()) || b.read().Status.ErrorReason != nil {
				t.Errorf("%+v", b.read().Status)
			}
		})
	})
}

func TestFailedJoinsSlowDownASetWithoutADeployment(t *testing.T) {
	b := newBench(t, owned)
	second := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "v"}, Spec: v1alpha1.MachineSpec{Versions: v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"}}}
	third := second.DeepCopy()
	third.Name, third.UID = "o", "w"
	for _, m := range []*v1alpha1.Machine{second, third} {
		owned(m)
		b.create(m)
	}
	b.late()
	var set v1alpha1.MachineSet
	if err := b.memory.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "set"}, &set); err != nil {
		t.Fatal(err)
	}
	if set.Status.RecentJoins != "f" {
		t.Errorf("the status of the set holds %q (F-52)", set.Status.RecentJoins)
	}
	t.Run("drover creates a server for only one of the set's next Machines, even after drover restarts (F-52)", func(t *testing.T) {
		made := b.cloud.made
		for _, m := range []*v1alpha1.Machine{second, third} {
			b.restart()
			b.key = client.ObjectKeyFromObject(m)
			b.pass()
		}
		if got := b.cloud.made - made; got != 1 {
			t.Errorf("%d servers, want 1", got)
		}
	})
}

func TestFailedJoinsSlowDownADeployment(t *testing.T) {
	b := newBench(t, deployed)
	second := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "v"}, Spec: v1alpha1.MachineSpec{Versions: v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"}}}
	third := second.DeepCopy()
	third.Name, third.UID = "o", "w"
	for _, m := range []*v1alpha1.Machine{second, third} {
		deployed(m)
		b.create(m)
	}
	b.late()
	inOrder(t, "a Machine whose Node does not join is replaced, and its group's status records the failed join (CAPI-26, CAPI-25)", func(t *testing.T) {
		if b.read().DeletionTimestamp == nil || b.pool().Status.RecentJoins != "f" {
			t.Errorf("%+v, joins %q", b.read(), b.pool().Status.RecentJoins)
		}
	})
	inOrder(t, "after a failed join, drover creates a server for only one of the next Machines, even when it restarts (CAPI-26)", func(t *testing.T) {
		made := b.cloud.made
		for _, m := range []*v1alpha1.Machine{second, third} {
			b.key = client.ObjectKeyFromObject(m)
			b.pass()
			b.restart()
		}
		b.shown()
		if c := find(b.read(), v1alpha1.ConditionReady); b.cloud.made-made != 1 || !strings.Contains(c.Message, "one server at a time") {
			t.Errorf("%d servers, %+v", b.cloud.made-made, c)
		}
	})
	inOrder(t, "drover creates a server for the next Machine when the Node of the previous one has joined (CAPI-26)", func(t *testing.T) {
		b.key = client.ObjectKeyFromObject(second)
		n := b.nodeOf()
		n.Name = "n"
		b.create(n)
		b.pass()
		b.key = client.ObjectKeyFromObject(third)
		b.pass()
		if b.pool().Status.RecentJoins != "fj" || b.read().Spec.ProviderID == nil {
			t.Errorf("joins %q, %+v", b.pool().Status.RecentJoins, b.read().Status)
		}
	})
}

func TestAMachineThatMayWaitForEverIsNotTheProbe(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *v1alpha1.Machine)
		after  time.Duration
		made   int
	}{
		{"drover creates the next server when the only Machine without a Node is paused (F-67)", func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		}, time.Minute, 1},
		{"drover creates the next server when the only Machine without a Node has no join timeout and is ACTIVE for longer than that of the others (F-67)", func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationJoinTimeout: "0"}
		}, 11 * time.Minute, 1},
		{"drover creates no other server while a Machine without a join timeout may still join in the time of the others (F-67)", func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationJoinTimeout: "0"}
		}, 6 * time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, deployed)
			others := map[string]*v1alpha1.Machine{}
			for _, name := range []string{"n", "o"} {
				m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1alpha1.MachineSpec{Versions: v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"}}}
				deployed(m)
				b.create(m)
				others[name] = m
			}
			b.late() // the first Machine's failed join lets only one Machine at a time create a server
			b.key = client.ObjectKeyFromObject(others["n"])
			b.pass()
			b.cloud.change("n", b.cloud.active)
			b.shown()
			m := b.read()
			tt.change(m)
			b.update(m)
			b.pass()
			b.restart()
			b.wait(tt.after)
			b.key = client.ObjectKeyFromObject(others["o"])
			made := b.cloud.made
			b.pass()
			if got := b.cloud.made - made; got != tt.made {
				t.Errorf("%d servers, want %d", got, tt.made)
			}
		})
	}
}

func TestStartupTaintIsRemovedWhenTheNodeIsComplete(t *testing.T) {
	b := newBench(t, nil)
	o := b.options
	o.Nodes.Start.Taint, o.Nodes.Start.Conditions = "not-ready", []corev1.NodeConditionType{"NetworkReady"}
	o.Nodes.Start.DaemonSets = []types.NamespacedName{{Namespace: "kube-system", Name: "cni"}}
	b.start(o)
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.pass()
	n := b.nodeOf()
	n.Spec.Taints = []corev1.Taint{{Key: "not-ready", Effect: corev1.TaintEffectNoSchedule}}
	b.create(n)
	starting := func(t *testing.T, why string) {
		t.Helper()
		b.shown()
		m := b.read()
		if c := find(m, v1alpha1.ConditionReady); len(b.node().Spec.Taints) != 1 || *m.Status.Phase != v1alpha1.PhaseJoined || c.Reason != "NodeStarting" || !strings.Contains(c.Message, why) {
			t.Errorf("taints %v, phase %s, %+v", b.node().Spec.Taints, *m.Status.Phase, c)
		}
	}
	inOrder(t, "a Ready Node keeps the startup taint until the conditions that the operator requires are True (MCM-43)", func(t *testing.T) { starting(t, "condition NetworkReady is not True") })
	n = b.node()
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "NetworkReady", Status: corev1.ConditionTrue})
	if err := b.memory.client.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	inOrder(t, "a Ready Node keeps the startup taint until the DaemonSets that the operator requires have a Ready pod (MCM-43)", func(t *testing.T) { starting(t, "DaemonSet kube-system/cni has no Ready pod") })
	b.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni-1", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "cni", Controller: ptr.To(true)}}},
		Spec:       corev1.PodSpec{NodeName: "m"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
	inOrder(t, "drover removes the startup taint once, and keeps a later taint with the same key (MC-56)", func(t *testing.T) {
		b.pass()
		if m := b.read(); len(b.node().Spec.Taints) != 0 || *m.Status.Phase != v1alpha1.PhaseRunning || !isReady(m) {
			t.Fatalf("taints %v, %+v", b.node().Spec.Taints, m.Status)
		}
		n := b.node()
		n.Spec.Taints = []corev1.Taint{{Key: "not-ready", Effect: corev1.TaintEffectNoSchedule}}
		b.update(n)
		b.pass()
		if len(b.node().Spec.Taints) != 1 || !isReady(b.read()) {
			t.Errorf("taints %v", b.node().Spec.Taints)
		}
	})
	inOrder(t, "after the removal of the startup taint, the Node has the label of every Node with a Machine, and none with its owner or its physical host (F-124)", func(t *testing.T) {
		labels := b.node().Labels
		_, owned := labels[v1alpha1.LabelOwnedBy]
		if _, hosted := labels[v1alpha1.LabelPhysicalHost]; owned || hosted || labels[v1alpha1.LabelManaged] != "true" {
			t.Errorf("labels %v", labels)
		}
	})
}

func TestAFullServerGroupStartsABackOff(t *testing.T) {
	t.Run("the status shows ServerGroupFull, and drover repeats the server create only when the back-off is over (CAPI-28)", func(t *testing.T) {
		b := newBench(t, nil)
		b.cloud.full = fault.New(fault.NoCapacity, fault.CodeServerGroupFull, "Quota exceeded, too many servers in group")
		for range 50 {
			b.pass()
		}
		if m := b.read(); ptr.Deref(m.Status.ErrorReason, "") != "ServerGroupFull" || !strings.Contains(ptr.Deref(m.Status.ErrorMessage, ""), "too many servers in group") {
			t.Errorf("status %+v", m.Status)
		}
		if n := b.cloud.count("EnsureServer"); n != 1 {
			t.Errorf("%d attempts", n)
		}
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.pass()
		if n := b.cloud.count("EnsureServer"); n != 2 {
			t.Errorf("%d attempts when the first back-off is over, want 2", n)
		}
	})
}
