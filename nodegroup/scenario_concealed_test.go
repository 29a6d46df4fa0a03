package nodegroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

const startupTaint = "example.com/starting"

// inPhase returns a change that puts a Machine into a phase, with a Ready condition.
func inPhase(phase v1alpha1.MachinePhase, ready corev1.ConditionStatus) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.Phase = ptr.To(phase)
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: ready}}
	}
}

// joinedOnly puts a Machine into the state in which its node has registered, but is not Ready yet.
var joinedOnly = inPhase(v1alpha1.PhaseJoined, corev1.ConditionFalse)

// withOption sets an autoscaling option on a pool.
func withOption(p *pools.Pool) {
	p.Deployment.Annotations[v1alpha1.AnnotationOptions+"scaledownunneededtime"] = "3m"
}

func TestWhenANodeIsShownToTheAutoscalerAsRegistered(t *testing.T) {
	for _, tc := range []struct {
		name       string
		pool       func(*pools.Pool)
		state      func(*v1alpha1.Machine)
		registered bool
	}{
		{"a node that is not Ready yet is shown as registered in a group without autoscaling options", func(*pools.Pool) {}, joinedOnly, true},
		{"a node that is not Ready yet is shown as not registered in a group with an autoscaling option (F-48)", withOption, joinedOnly, false},
		{
			"a node is shown as not registered before its Machine's status names the node (F-48)", withOption,
			inPhase(v1alpha1.PhaseProvisioning, corev1.ConditionFalse), false,
		},
		{
			"a node that is not Ready yet is shown as registered when drover refuses the group's only autoscaling option",
			func(p *pools.Pool) {
				p.Deployment.Annotations[v1alpha1.AnnotationOptions+"zeroormaxnodescaling"] = "true"
			}, joinedOnly, true,
		},
		{"a node is shown as registered once its Machine has the phase Running", withOption, inPhase(v1alpha1.PhaseRunning, corev1.ConditionTrue), true},
		{"a node is shown as registered once its Machine has the condition Ready", withOption, inPhase(v1alpha1.PhaseJoined, corev1.ConditionTrue), true},
		{"a node stays shown as registered when it becomes NotReady later", withOption, inPhase(v1alpha1.PhaseRunning, corev1.ConditionFalse), true},
		{"a node stays shown as registered when its Machine fails", withOption, inPhase(v1alpha1.PhaseFailed, corev1.ConditionFalse), true},
		{"a node is shown as registered when its Machine's status has no phase, because drover has not reconciled the Machine yet", withOption, func(*v1alpha1.Machine) {}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 1, 0, 5)
			tc.pool(p)
			_, n := p.Node("a-1", tc.state)
			b := newBench(t, w)
			want := []model.Instance{{ID: pools.MachineID(p, "a-1"), State: model.Creating}}
			if tc.registered {
				want = []model.Instance{{ID: pools.ProviderID("a-1"), State: model.Running}}
			}
			got, err := b.groups.Instances(p.ID())
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("instances (-want +got), error %v:\n%s", err, diff)
			}
			if _, ok := b.groups.ForNode(pools.Asked(n)); ok != tc.registered {
				t.Errorf("the node belongs to a group: got %v, want %v", ok, tc.registered)
			}
			if g, ok := b.groups.ForNode(pools.Fake(pools.MachineID(p, "a-1"), "unregistered")); !ok || g.ID != p.ID() {
				t.Errorf("its placeholder belongs to %q, want %q", g.ID, p.ID())
			}
		})
	}
	t.Run("an unready node is shown as not registered exactly as long as its group has an autoscaling option (F-48)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 0, 5)
		p.Node("a-1", joinedOnly)
		b := newBench(t, w)
		for _, options := range []bool{true, false} {
			d := b.deployment(p)
			delete(d.Annotations, v1alpha1.AnnotationOptions+"scaledownunneededtime")
			want := pools.ProviderID("a-1")
			if options {
				withOption(&pools.Pool{Deployment: d})
				want = pools.MachineID(p, "a-1")
			}
			if err := b.client.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			b.catchUp()
			if got, err := b.groups.Instances(p.ID()); err != nil || len(got) != 1 || got[0].ID != want {
				t.Errorf("with options %v: the instances are %v (error %v), want %s", options, got, err, want)
			}
		}
	})
}

func TestDeleteNodesOfNodesThatTheAutoscalerConsidersUnregistered(t *testing.T) {
	setUp := func(t *testing.T, low int32) (*bench, *pools.Pool) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, low, 5)
		withOption(p)
		p.Node("a-1", inPhase(v1alpha1.PhaseRunning, corev1.ConditionTrue))
		_, n := p.Node("a-2", joinedOnly)
		n.Spec.Taints = []corev1.Taint{{Key: startupTaint, Effect: corev1.TaintEffectNoSchedule}}
		p.Machine("a-3", pools.WithServer, inPhase(v1alpha1.PhaseProvisioning, corev1.ConditionFalse))
		return newBench(t, w, Options{StartupTaint: startupTaint}), p
	}
	remove := func(b *bench, p *pools.Pool) error {
		return b.groups.DeleteNodes(b.t.Context(), p.ID(), []membership.Node{
			pools.Fake(pools.MachineID(p, "a-2"), "unregistered"), pools.Fake(pools.MachineID(p, "a-3"), "unregistered"),
		})
	}
	t.Run("nodes that have not started are removed together with servers that never joined (F-48)", func(t *testing.T) {
		b, p := setUp(t, 0)
		wantKind(t, remove(b, p), "")
		b.expect(p, 1, "a-2", "a-3")
	})
	t.Run("nodes that have not started stay when the size is the minimum (F-48)", func(t *testing.T) {
		b, p := setUp(t, 3)
		wantKind(t, remove(b, p), "")
		b.expect(p, 3)
	})
	t.Run("the call is refused when a node's Machine is Running by now, even if drover's watch still shows the phase Joined", func(t *testing.T) {
		b, p := setUp(t, 0)
		b.freeze()
		m := &v1alpha1.Machine{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: pools.Namespace, Name: "a-2"}, m); err != nil {
			t.Fatal(err)
		}
		inPhase(v1alpha1.PhaseRunning, corev1.ConditionTrue)(m)
		if err := b.client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		wantKind(t, remove(b, p), model.FailedPrecondition)
		b.expect(p, 3)
	})
	t.Run("the call is refused when a node can run pods by now, even if its Machine's status still has the phase Joined", func(t *testing.T) {
		b, p := setUp(t, 0)
		b.freeze()
		n := &corev1.Node{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Name: "a-2"}, n); err != nil {
			t.Fatal(err)
		}
		n.Spec.Taints = nil
		if err := b.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := b.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		wantKind(t, remove(b, p), model.FailedPrecondition)
		b.expect(p, 3)
	})
	t.Run("no node is removed when one of the nodes cannot be read (F-48)", func(t *testing.T) {
		b, p := setUp(t, 0)
		b.groups.live.target = unreadable{b.client}
		wantKind(t, remove(b, p), model.Unavailable)
		b.expect(p, 3)
	})
	t.Run("the call is refused in a group without autoscaling options, where drover shows a node as registered before it is Ready", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 0, 5)
		p.Node("a-1", joinedOnly)
		b := newBench(t, w)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-1"), "unregistered")}), model.FailedPrecondition)
		b.expect(p, 1)
	})
}

func TestDecreaseTargetSizeKeepsNodesThatHaveNotStarted(t *testing.T) {
	t.Run("the Machine without a Node is removed, and the Machine whose Node has registered but is not Ready stays", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 0, 5)
		withOption(p)
		p.Node("a-1", joinedOnly)
		p.Machine("a-2", pools.WithServer)
		b := newBench(t, w)
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -2), "")
		b.expect(p, 1, "a-2")
	})
}

func TestARolloutHidesTheNewNodeFromTheAutoscalerBeforeTheNodeIsReady(t *testing.T) {
	for name, options := range map[string]func(*pools.Pool){
		"in a group without autoscaling options, the autoscaler sees the old nodes, and not the new node that is not Ready (F-47)": func(*pools.Pool) {},
		"in a group with an autoscaling option, the autoscaler sees the old nodes, and not the new node that is not Ready (F-48)":  withOption,
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 2, 0, 5)
			options(p)
			running := inPhase(v1alpha1.PhaseRunning, corev1.ConditionTrue)
			_, first := p.Node("a-1", running)
			_, second := p.Node("a-2", running)
			p.Set = p.Revision(2)
			_, fresh := p.Node("b-1", joinedOnly)
			b := newBench(t, w)
			for _, n := range []*corev1.Node{first, second} {
				if _, ok := b.groups.ForNode(pools.Asked(n)); !ok {
					t.Errorf("node %s belongs to no group", n.Name)
				}
			}
			if g, ok := b.groups.ForNode(pools.Asked(fresh)); ok {
				t.Errorf("node %s belongs to group %s, want none", fresh.Name, g.ID)
			}
		})
	}
}
