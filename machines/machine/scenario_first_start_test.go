package machine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

const (
	cilium  = "node.cilium.io/agent-not-ready"
	startup = "example.com/starting"
)

// starting returns a bench whose Machine has an ACTIVE server, with the given startup taint and taints of other programs.
func starting(t *testing.T, startupTaint string, others ...string) *bench {
	t.Helper()
	b := newBench(t, deployed)
	o := b.options
	o.Nodes.Start.Taint, o.Nodes.Start.OtherTaints = startupTaint, others
	b.start(o)
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.pass()
	return b
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

// registers creates the Machine's Node with the given taints, and with the startup taint if the bench has one.
func (b *bench) registers(ready corev1.ConditionStatus, taints ...corev1.Taint) {
	b.t.Helper()
	n := b.nodeOf()
	n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = ready, "Kubelet", "reported"
	if key := b.options.Nodes.Start.Taint; key != "" {
		n.Spec.Taints = append(n.Spec.Taints, taint(key, corev1.TaintEffectNoSchedule))
	}
	n.Spec.Taints = append(n.Spec.Taints, taints...)
	b.create(n)
}

// changes updates the Machine's Node and reconciles the Machine.
func (b *bench) changes(change func(*corev1.Node)) {
	b.t.Helper()
	n := b.node()
	change(n)
	status := n.Status
	b.update(n)
	n.Status = status
	if err := b.memory.client.Status().Update(b.t.Context(), n); err != nil {
		b.t.Fatal(err)
	}
	b.pass()
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// isStarting checks that the Machine is shown as starting, by its phase and condition Ready, and that the Node has the startup taint.
// why lists texts that the condition's message must contain.
func (b *bench) isStarting(why ...string) {
	b.t.Helper()
	m := b.read()
	c := find(m, v1alpha1.ConditionReady)
	if c.Status != corev1.ConditionFalse || c.Reason != "NodeStarting" || *m.Status.Phase != v1alpha1.PhaseJoined {
		b.t.Errorf("phase %s, condition %+v; want Joined and NodeStarting", *m.Status.Phase, c)
	}
	for _, text := range why {
		if !strings.Contains(c.Message, text) {
			b.t.Errorf("message %q, want something with %q", c.Message, text)
		}
	}
	if key := b.options.Nodes.Start.Taint; key != "" && !hasTaint(b.node(), key) {
		b.t.Errorf("the startup taint is gone: %v", b.node().Spec.Taints)
	}
}

// hasStarted checks that the first start is complete and that the startup taint is removed.
func (b *bench) hasStarted() {
	b.t.Helper()
	m := b.read()
	if !isReady(m) || *m.Status.Phase != v1alpha1.PhaseRunning || hasTaint(b.node(), startup) {
		b.t.Errorf("phase %s, condition %+v, taints %v; want Running, Ready and no startup taint", *m.Status.Phase, find(m, v1alpha1.ConditionReady), b.node().Spec.Taints)
	}
}

func TestAMachineIsShownAsStartingUntilItsNodeIsComplete(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ready corev1.ConditionStatus
		taint corev1.Taint
		// awaits is a part of the condition's message; empty means that the Node has started.
		awaits string
	}{
		{"is shown as starting while the Node has the cloud provider's taint uninitialized", corev1.ConditionTrue, taint(v1alpha1.TaintUninitialized, corev1.TaintEffectNoSchedule), "the cloud-controller-manager has not initialized the Node"},
		{"is shown as starting while the Node is not Ready", corev1.ConditionFalse, corev1.Taint{}, "the Node is not Ready: Kubelet: reported"},
		{"is shown as starting while the Node's condition Ready is Unknown", corev1.ConditionUnknown, corev1.Taint{}, "the Node is not Ready: Kubelet: reported"},
		{"is shown as starting while the Node has the taint not-ready with the effect NoSchedule", corev1.ConditionTrue, taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), "taint node.kubernetes.io/not-ready"},
		{"is shown as starting while the Node has the taint unreachable", corev1.ConditionTrue, taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule), "taint node.kubernetes.io/unreachable"},
		{"is shown as starting while the Node has the taint network-unavailable", corev1.ConditionTrue, taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule), "taint node.kubernetes.io/network-unavailable"},
		{"is shown as starting while the Node has a taint that --startup-requires names", corev1.ConditionTrue, taint(cilium, corev1.TaintEffectNoExecute), "taint " + cilium},
		{"is not shown as starting although the Node has the taint not-ready with the effect NoExecute", corev1.ConditionTrue, taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), ""},
		{"is not shown as starting although the Node has a taint with the effect PreferNoSchedule", corev1.ConditionTrue, taint(cilium, corev1.TaintEffectPreferNoSchedule), ""},
		{"is not shown as starting although the Node has a taint that --startup-requires does not name", corev1.ConditionTrue, taint("gpu", corev1.TaintEffectNoSchedule), ""},
	} {
		for _, key := range []string{startup, ""} {
			name := tt.name
			if key == "" {
				name += ", when --startup-taint is not set"
			}
			t.Run(name+" (F-47)", func(t *testing.T) {
				b := starting(t, key, cilium)
				var taints []corev1.Taint
				if tt.taint.Key != "" {
					taints = append(taints, tt.taint)
				}
				b.registers(tt.ready, taints...)
				b.pass()
				if tt.awaits == "" {
					b.hasStarted()
					return
				}
				b.isStarting(tt.awaits)
				b.changes(func(n *corev1.Node) {
					n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == tt.taint.Key })
					n.Status.Conditions[0].Status = corev1.ConditionTrue
				})
				b.hasStarted()
			})
		}
	}
}

// operating-system-manager's kubelets set no provider ID. machine-controller set it where no cloud-controller-manager does.
func TestANodeWithoutAProviderIDGetsThatOfItsServer(t *testing.T) {
	registers := func(b *bench, taints ...corev1.Taint) {
		n := b.nodeOf()
		n.Spec = corev1.NodeSpec{Taints: taints}
		b.create(n)
		b.pass()
	}
	t.Run("when no cloud-controller-manager will set it (F-133)", func(t *testing.T) {
		b := starting(t, "")
		registers(b)
		b.hasStarted()
		if got, want := b.node().Spec.ProviderID, *b.read().Spec.ProviderID; got != want {
			t.Errorf("provider ID %q, want %q", got, want)
		}
	})
	t.Run("not when the cloud-controller-manager will set it (F-133)", func(t *testing.T) {
		b := starting(t, "")
		registers(b, taint(v1alpha1.TaintUninitialized, corev1.TaintEffectNoSchedule))
		b.wait(time.Hour)
		b.pass()
		if got := b.node().Spec.ProviderID; got != "" {
			t.Errorf("provider ID %q, want none", got)
		}
	})
}

func TestALongFirstStartOfANodeDoesNotCountAsAFailedJoin(t *testing.T) {
	b := starting(t, startup)
	b.registers(corev1.ConditionTrue, taint(v1alpha1.TaintUninitialized, corev1.TaintEffectNoSchedule))
	inOrder(t, "a Machine whose Node is not complete for a day is kept, and no failed join is recorded (F-47)", func(t *testing.T) {
		for range 24 {
			b.wait(time.Hour)
			b.restart()
			o := b.options
			o.Nodes.Start.Taint = startup
			b.start(o)
			b.pass()
		}
		b.t = t
		b.isStarting("the cloud-controller-manager has not initialized the Node", v1alpha1.TaintUninitialized, bootstrap.AnnotationExternalCloudProvider+`: "false"`)
		if m := b.read(); m.DeletionTimestamp != nil || m.Status.ErrorReason != nil || b.pool().Status.RecentJoins != "" || b.cloud.count("DeleteServer") != 0 {
			t.Errorf("%+v, joins %q", m.Status, b.pool().Status.RecentJoins)
		}
	})
	inOrder(t, "writes nothing while nothing changes (F-47)", func(t *testing.T) {
		before := b.patches.count["*v1alpha1.Machine"] + b.patches.count["*v1.Node"]
		for range 10 {
			b.pass()
		}
		if now := b.patches.count["*v1alpha1.Machine"] + b.patches.count["*v1.Node"]; now != before {
			t.Errorf("%d writes, then %d", before, now)
		}
	})
}

func TestTheMessageAboutANewNodeThatIsNotReadyIsWrittenRarely(t *testing.T) {
	b := starting(t, startup)
	n := b.nodeOf()
	n.CreationTimestamp = metav1.NewTime(b.clock.Now())
	n.Spec.Taints = []corev1.Taint{taint(startup, corev1.TaintEffectNoSchedule), taint(v1alpha1.TaintUninitialized, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)}
	b.create(n)
	b.pass()
	before := b.patches.count["*v1alpha1.Machine"]
	inOrder(t, "the message is not written again at once when a taint is removed (F-47)", func(t *testing.T) {
		b.changes(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] })
		if now := b.patches.count["*v1alpha1.Machine"]; now != before {
			t.Errorf("%d writes, then %d", before, now)
		}
	})
	inOrder(t, "the message is updated within 30 s after a taint is removed (F-47)", func(t *testing.T) {
		b.changes(func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintUninitialized })
		})
		if after := b.pass().RequeueAfter; after <= 0 || after > 30*time.Second {
			t.Errorf("the next reconcile is after %v, want within 30 s", after)
		}
		b.wait(30 * time.Second)
		b.pass()
		if c := find(b.read(), v1alpha1.ConditionReady); !strings.HasPrefix(c.Message, "the Node has the taint node.kubernetes.io/not-ready;") {
			t.Errorf("%+v", c)
		}
	})
}

func TestAMachineIsShownAsStartingAgainOnlyForANewNode(t *testing.T) {
	for _, key := range []string{startup, ""} {
		name := "a Machine whose Node becomes unreachable is not shown as starting again"
		if key == "" {
			name += ", when --startup-taint is not set"
		}
		t.Run(name+" (F-47)", func(t *testing.T) {
			b := starting(t, key)
			b.registers(corev1.ConditionTrue)
			b.pass()
			b.hasStarted()
			b.changes(func(n *corev1.Node) {
				n.Status.Conditions[0].Status = corev1.ConditionUnknown
				n.Spec.Taints = append(n.Spec.Taints, taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule))
			})
			c := find(b.read(), v1alpha1.ConditionReady)
			if c.Status != corev1.ConditionUnknown || c.Reason != "NodeNotReady" || *b.read().Status.Phase != v1alpha1.PhaseRunning || hasTaint(b.node(), startup) {
				t.Errorf("phase %s, condition %+v, taints %v", *b.read().Status.Phase, c, b.node().Spec.Taints)
			}
		})
	}
	t.Run("a Machine whose Node was deleted and has registered again is shown as starting again (F-47)", func(t *testing.T) {
		b := starting(t, "")
		b.registers(corev1.ConditionTrue)
		b.pass()
		b.hasStarted()
		b.remove(b.node())
		b.wait(time.Minute)
		b.registers(corev1.ConditionTrue, taint(v1alpha1.TaintUninitialized, corev1.TaintEffectNoSchedule))
		for range 3 {
			b.pass()
			b.isStarting("cloud-controller-manager")
		}
	})
}

func TestANodeThatAnotherProgramOrVersionStartedIsNotShownAsStarting(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status func(*v1alpha1.MachineStatus)
	}{
		// machine-controller writes one condition without times and never changes it, and it writes no phase.
		{"an unreachable Node is not shown as starting when machine-controller has set its Machine's condition Ready to True", func(s *v1alpha1.MachineStatus) {
			s.Phase, s.Conditions = nil, []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}}
		}},
		{"an unreachable Node is not shown as starting when an older version of drover has set its Machine's phase to Running", func(s *v1alpha1.MachineStatus) {
			s.Phase = ptr.To(v1alpha1.PhaseRunning)
			s.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionUnknown, Reason: "NodeNotReady"}}
		}},
	} {
		t.Run(tt.name+" (F-47)", func(t *testing.T) {
			b := starting(t, "")
			b.registers(corev1.ConditionUnknown, taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule))
			m := b.read()
			m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "m", UID: b.node().UID}
			tt.status(&m.Status)
			b.update(m)
			for range 3 {
				b.pass()
				c := find(b.read(), v1alpha1.ConditionReady)
				if c.Reason != "NodeNotReady" || *b.read().Status.Phase != v1alpha1.PhaseRunning {
					t.Fatalf("phase %s, condition %+v", *b.read().Status.Phase, c)
				}
			}
			b.changes(func(n *corev1.Node) { n.Status.Conditions[0].Status, n.Spec.Taints = corev1.ConditionTrue, nil })
			b.hasStarted()
		})
	}
}

func TestAStartupTaintOfAnotherProgramIsNotSetAgain(t *testing.T) {
	t.Run("after Cilium has removed its taint, drover does not set the taint again, even if the Machine's spec.taints has it (F-47)", func(t *testing.T) {
		b := starting(t, "", cilium)
		m := b.read()
		m.Spec.Taints = []corev1.Taint{taint(cilium, corev1.TaintEffectNoExecute), taint("gpu", corev1.TaintEffectNoSchedule)}
		b.update(m)
		b.registers(corev1.ConditionTrue, m.Spec.Taints...)
		b.pass()
		b.isStarting(cilium)
		b.changes(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] })
		b.hasStarted()
		b.pass()
		if n := b.node(); hasTaint(n, cilium) || !hasTaint(n, "gpu") {
			t.Errorf("taints %v", n.Spec.Taints)
		}
	})
}

func TestOnlyTheTaintWithTheStartupTaintsKeyAndEffectIsRemoved(t *testing.T) {
	t.Run("drover keeps a taint with the startup taint's key and another effect (F-47)", func(t *testing.T) {
		b := starting(t, startup)
		n := b.nodeOf()
		other := taint(startup, corev1.TaintEffectPreferNoSchedule)
		n.Spec.Taints = []corev1.Taint{taint(startup, corev1.TaintEffectNoSchedule), other}
		b.create(n)
		b.pass()
		m := b.read()
		if got := b.node().Spec.Taints; len(got) != 1 || got[0] != other || !isReady(m) || *m.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("taints %v, %+v", got, m.Status)
		}
	})
}
