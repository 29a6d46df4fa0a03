package machine_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// made is the creation time of the Machine of these tests.
var made = metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))

// aiming returns a bench with an attacker's Machine, which has an ACTIVE server. Its template sets a label and a taint with the key evil
// on its Node.
func aiming(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, func(m *v1alpha1.Machine) {
		m.CreationTimestamp = made
		m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
		m.Spec.Taints = []corev1.Taint{{Key: "evil", Effect: corev1.TaintEffectNoExecute}}
		m.Spec.Metadata.Labels = map[string]string{v1alpha1.LabelOwnedBy: "u", "evil": "yes"}
	})
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	return b
}

// neverTouches checks that the Node m does not change, neither while the Machine exists nor after the Machine is deleted.
func (b *bench) neverTouches(was *corev1.Node) {
	b.t.Helper()
	check := func(when string) {
		b.t.Helper()
		n := b.node()
		if n.Name == "" || n.ResourceVersion != was.ResourceVersion {
			b.t.Errorf("%s the Node was written or deleted: %+v, %+v", when, n.ObjectMeta, n.Spec)
		}
	}
	b.shown()
	check("while the Machine lives")
	b.create(stubborn("p"))
	b.end()
	for range 4 {
		b.pass()
	}
	check("after the Machine's deletion")
	if name := b.read().Name; name != "" {
		b.t.Errorf("Machine %s is left: %+v", name, b.deleting())
	}
	p := &corev1.Pod{}
	if err := b.memory.client.Get(b.t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"}, p); err != nil || p.DeletionTimestamp != nil {
		b.t.Errorf("the pod on the Node was evicted: %v, %v", p.DeletionTimestamp, err)
	}
}

func TestANodeOfAnotherOwnerIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corev1.Node)
		// why is a part of the Ready condition's message.
		why string
	}{
		{"does not touch a control plane Node that has the provider ID and name of the Machine's server (F-4)", func(n *corev1.Node) {
			n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}, "control plane"},
		{"does not touch a Node that is older than the Machine and has the provider ID and name of the Machine's server (F-4)", func(n *corev1.Node) {
			n.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
		}, "existed before the Machine"},
		{"does not touch another Machine's Node that has the provider ID and name of this Machine's server", func(n *corev1.Node) {
			n.Labels = map[string]string{v1alpha1.LabelOwnedBy: "victim"}
		}, "UID victim"},
		{"does not touch a Node without an owner label when an older Machine has the Node's provider ID and name (F-4)", func(*corev1.Node) {}, "older Machine ns/victim"},
		{"does not touch a Node without owner label and provider ID when an older Machine has the Node's name (F-4)", func(n *corev1.Node) {
			n.Spec.ProviderID = ""
		}, "older Machine ns/victim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := aiming(t)
			b.victim()
			n := b.nodeOf()
			n.CreationTimestamp = metav1.NewTime(made.Add(time.Hour))
			tt.change(n)
			b.create(n)
			b.pass()
			if c := find(b.read(), v1alpha1.ConditionReady); c.Reason != "NodeBelongsToAnother" || !strings.Contains(c.Message, tt.why) {
				t.Errorf("condition %+v, want a reason with %q", c, tt.why)
			}
			b.neverTouches(n)
		})
	}
	t.Run("does not touch a Node that is named only in a forged status of the Machine (F-4)", func(t *testing.T) {
		b := aiming(t)
		n := b.nodeOf()
		n.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
		b.create(n)
		b.records("m")
		b.pass()
		if c := find(b.read(), v1alpha1.ConditionReady); c.Reason != "NodeMissing" || !strings.Contains(c.Message, "existed before the Machine") {
			t.Errorf("%+v", c)
		}
		b.neverTouches(n)
	})
}

// victim creates a Machine that is older than Machine m and has the same Node name and server ID.
func (b *bench) victim() {
	b.t.Helper()
	v := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "victim", UID: "victim", CreationTimestamp: metav1.NewTime(made.Add(-time.Minute))}}
	v.Spec.Metadata.Name, v.Spec.ProviderID = "m", b.read().Spec.ProviderID
	b.create(v)
	real := *b.cloud.servers["u"]
	real.Owner = "victim"
	b.cloud.mu.Lock()
	defer b.cloud.mu.Unlock()
	b.cloud.servers["victim"] = &real
}

func TestANodeThatMatchesTwoMachines(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*bench)
		taken  bool
	}{
		{"the Node belongs to the younger Machine when the cloud has no server of the older Machine", func(b *bench) { delete(b.cloud.servers, "victim") }, false},
		{"the Node belongs to no Machine while the cloud refuses the older Machine's credentials (F-4)", func(b *bench) {
			b.cloud.refuse["victim"] = fault.New(fault.Auth, fault.CodeUnauthorized, "no")
		}, true},
		{"the Node belongs to the younger Machine when the older Machine's spec names another Node (F-4)", func(b *bench) {
			var v v1alpha1.Machine
			if err := b.memory.client.Get(b.t.Context(), types.NamespacedName{Namespace: "ns", Name: "victim"}, &v); err != nil {
				b.t.Fatal(err)
			}
			v.Spec.Metadata.Name = "another"
			b.update(&v)
			b.cloud.refuse["victim"] = fault.New(fault.Auth, fault.CodeUnauthorized, "no")
		}, false},
		{"the Node belongs to the younger Machine when the older Machine is gone", func(b *bench) {
			b.remove(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "victim"}})
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := aiming(t)
			b.victim()
			tt.change(b)
			n := b.nodeOf()
			n.CreationTimestamp = metav1.NewTime(made.Add(time.Hour))
			b.create(n)
			b.pass()
			if joined := b.read().Status.NodeRef != nil; joined == tt.taken {
				t.Errorf("joined %v, %+v", joined, find(b.read(), v1alpha1.ConditionReady))
			}
		})
	}
}

func TestANodeThatIsOlderThanItsMachine(t *testing.T) {
	t.Run("belongs to the Machine when an operator has allowed the Machine to adopt the Node's server", func(t *testing.T) {
		b := aiming(t)
		b.cloud.change("u", func(s *fakeServer) { s.Adopted, s.Created = true, made.Add(-24*time.Hour) })
		n := b.nodeOf()
		n.CreationTimestamp = metav1.NewTime(made.Add(-23 * time.Hour))
		n.Labels = map[string]string{v1alpha1.LabelOwnedBy: "former"}
		b.create(n)
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { s.Adopted = false })
		b.wait(longestUnwritten)
		b.pass()
		if m := b.read(); m.Status.NodeRef == nil || !isReady(m) || b.node().Annotations[v1alpha1.AnnotationOwnedBy] != "u" {
			t.Errorf("%+v, annotations %v", m.Status, b.node().Annotations)
		}
	})
	t.Run("belongs to the Machine when machine-controller has put the Machine's owner label on the Node", func(t *testing.T) {
		b := aiming(t)
		n := b.nodeOf()
		n.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
		n.Labels = map[string]string{v1alpha1.LabelOwnedBy: "u"}
		b.create(n)
		b.pass()
		if m := b.read(); m.Status.NodeRef == nil || !isReady(m) {
			t.Errorf("%+v", m.Status)
		}
	})
}

func TestAForgedNodeDoesNotReplaceTheMachinesNode(t *testing.T) {
	b := aiming(t)
	n := b.nodeOf()
	n.CreationTimestamp, n.UID = metav1.NewTime(made.Add(time.Hour)), "real"
	b.create(n)
	b.shown()
	forged := b.nodeOf()
	forged.Name, forged.UID, forged.ResourceVersion = "attacker", "forged", ""
	forged.CreationTimestamp = metav1.NewTime(made.Add(2 * time.Hour))
	forged.Labels = map[string]string{v1alpha1.LabelOwnedBy: "u"}
	b.create(forged)
	before := b.nodeNamed("attacker").ResourceVersion
	b.shown()
	inOrder(t, "keeps the Machine's own Node in the status, although a forged Node has the Machine's label (F-4)", func(t *testing.T) {
		if ref := b.read().Status.NodeRef; ref == nil || ref.UID != "real" {
			t.Errorf("the Machine's Node is %+v", ref)
		}
		if after := b.nodeNamed("attacker").ResourceVersion; after != before {
			t.Error("the forged Node was written")
		}
	})
	inOrder(t, "deletes the Machine's own Node when the Machine is deleted (F-4)", func(t *testing.T) {
		b.end()
		for range 4 {
			b.pass()
		}
		if b.node().Name != "" || b.read().Name != "" {
			t.Errorf("Node %q and Machine %q are left", b.node().Name, b.read().Name)
		}
	})
}

func TestANodeWithAForgedProviderIDDoesNotHideTheMachinesNode(t *testing.T) {
	b := aiming(t)
	n := b.nodeOf()
	n.CreationTimestamp, n.UID, n.Spec.ProviderID = metav1.NewTime(made.Add(time.Hour)), "real", ""
	forged := b.nodeOf()
	forged.Name, forged.UID = "attacker", "forged"
	forged.CreationTimestamp = metav1.NewTime(made.Add(time.Hour))
	forged.Labels = map[string]string{v1alpha1.LabelOwnedBy: "u"}
	b.create(forged)
	b.shown()
	inOrder(t, "the Machine does not accept a Node with a forged provider ID before its own Node registers (F-4)", func(t *testing.T) {
		if ref := b.read().Status.NodeRef; ref != nil {
			t.Errorf("the Machine's Node is %+v", ref)
		}
	})
	b.create(n)
	b.shown()
	inOrder(t, "the Machine accepts its own Node although a Node with a forged provider ID exists (F-4)", func(t *testing.T) {
		if m := b.read(); m.Status.NodeRef == nil || m.Status.NodeRef.UID != "real" || !isReady(m) {
			t.Errorf("the Machine's Node is %+v; %+v", m.Status.NodeRef, find(m, v1alpha1.ConditionReady))
		}
	})
}

func TestAMachineStaysReadyAlthoughItsNodeHasAControlPlaneRole(t *testing.T) {
	joins := func(t *testing.T) *bench {
		t.Helper()
		b := aiming(t)
		n := b.nodeOf()
		n.CreationTimestamp = metav1.NewTime(made.Add(time.Hour))
		n.Labels = map[string]string{v1alpha1.LabelOwnedBy: "u", "node-role.kubernetes.io/control-plane": ""}
		b.create(n)
		b.shown()
		if !isReady(b.read()) {
			t.Fatalf("it is not Ready before: %+v", find(b.read(), v1alpha1.ConditionReady))
		}
		b.restart()
		return b
	}
	t.Run("the Machine stays Ready while the cloud refuses to answer (F-4)", func(t *testing.T) {
		b := joins(t)
		b.cloud.refuse["m"] = fault.New(fault.Auth, fault.CodeUnauthorized, "no")
		b.pass()
		if !isReady(b.read()) {
			t.Errorf("%+v", find(b.read(), v1alpha1.ConditionReady))
		}
	})
	t.Run("the Machine stays Ready after a restart, before the first list of servers (F-4)", func(t *testing.T) {
		b := joins(t)
		b.cloud.unsynced = true
		b.pass()
		if !isReady(b.read()) {
			t.Errorf("%+v", find(b.read(), v1alpha1.ConditionReady))
		}
	})
}
