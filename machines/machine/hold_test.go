package machine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// going is what stands for the state of drover's CustomResourceDefinitions: why deletions are withheld, and what was asked.
type going struct {
	reason, message string
	asked           []bool
}

func (g *going) Withheld(_ context.Context, _ *v1alpha1.Machine, begun bool) (reason, message string) {
	g.asked = append(g.asked, begun)
	return g.reason, g.message
}

// withheld is a bench whose joined Machine is deleted while deletions are withheld, with a pod on its node.
func withheld(t *testing.T) (*bench, *going) {
	t.Helper()
	b := joined(t, nil)
	b.create(stubborn("p"))
	g := &going{reason: "KindBeingDeleted", message: "being deleted: machines.cluster.k8s.io"}
	b.kinds = g
	b.restart()
	return b, g
}

// untouched fails the test when anything of the deletion was done.
func (b *bench) untouched(was *v1alpha1.Machine) {
	b.t.Helper()
	m, node := b.read(), b.node()
	if b.cloud.count("DeleteServer")+b.cloud.count("Release") != 0 {
		b.t.Error("the cloud was asked to delete something")
	}
	if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
		b.t.Errorf("the node was cordoned: %+v", node.Spec)
	}
	if len(m.Finalizers) != len(was.Finalizers) {
		b.t.Errorf("finalizers %v, want %v", m.Finalizers, was.Finalizers)
	}
}

func TestADeletionThatIsWithheld(t *testing.T) {
	t.Run("it cordons, drains and deletes nothing, and says so once (F-42)", func(t *testing.T) {
		b, _ := withheld(t)
		was := b.read()
		b.end()
		for range 3 {
			if after := b.pass().RequeueAfter; after <= 0 || after > time.Minute {
				t.Errorf("looked at again after %v", after)
			}
			b.wait(time.Minute)
		}
		b.untouched(was)
		if c := b.deleting(); c.Reason != "KindBeingDeleted" || !strings.Contains(c.Message, "machines.cluster.k8s.io") {
			t.Errorf("condition %+v", c)
		}
		if events := b.events(); strings.Count(events, "KindBeingDeleted") != 1 {
			t.Errorf("events %q", events)
		}
	})
	t.Run("a drain that was under way stops, and goes on when it may (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		g.reason, g.message = "", ""
		b.end()
		b.shown()
		if got := b.deleting().Reason; got != "DrainingNode" {
			t.Fatalf("it is %s", got)
		}
		g.reason, g.message = "KindBeingDeleted", "m"
		b.wait(3 * time.Hour)
		b.pass()
		if b.cloud.count("DeleteServer") != 0 {
			t.Error("its server was deleted at the drain's deadline")
		}
		g.reason, g.message = "", ""
		b.pass()
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("it does not go on: %+v", b.deleting())
		}
	})
	t.Run("a deletion begins on a fresh answer only (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		g.reason, g.message = "", ""
		b.end()
		b.pass()
		b.wait(time.Second)
		b.pass()
		if len(g.asked) != 2 || g.asked[0] || !g.asked[1] {
			t.Errorf("asked whether it had begun: %v", g.asked)
		}
	})
	t.Run("a condition that came with a restored manifest is no beginning (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		g.reason, g.message = "", ""
		m := b.read()
		m.Status.Conditions = append(m.Status.Conditions, v1alpha1.MachineCondition{
			Type: v1alpha1.ConditionDeleting, Status: "True", Reason: "DrainingNode", LastTransitionTime: ptr.To(metav1.NewTime(time.Now().Add(-time.Hour))),
		})
		b.update(m)
		b.end()
		b.pass()
		if len(g.asked) != 1 || g.asked[0] {
			t.Errorf("asked whether it had begun: %v", g.asked)
		}
	})
	t.Run("a Machine that lives asks nothing (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		b.pass()
		if len(g.asked) != 0 {
			t.Errorf("asked %d times", len(g.asked))
		}
	})
}
