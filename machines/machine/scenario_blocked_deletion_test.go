package machine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// kindsStub is a stub of machine.Kinds: it returns why deletions are blocked, and records the calls.
type kindsStub struct {
	why   string
	asked []bool
}

func (g *kindsStub) Withheld(_ context.Context, _ *v1alpha1.Machine, begun bool) (why string, err error) {
	g.asked = append(g.asked, begun)
	return g.why, nil
}

// withheld returns a bench with a joined Machine, a pod on its Node, and a stub that blocks all deletions.
func withheld(t *testing.T) (*bench, *kindsStub) {
	t.Helper()
	b := joined(t, nil)
	b.create(stubborn("p"))
	g := &kindsStub{why: "being deleted: machines.cluster.k8s.io"}
	b.kinds = g
	b.restart()
	return b, g
}

// untouched fails the test if any step of the deletion was taken.
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

func TestDroverChecksWhetherCRDsBlockTheDeletionOfAMachine(t *testing.T) {
	t.Run("cordons, drains and deletes nothing while a CRD that is being deleted blocks the deletion, and records one Event (F-42)", func(t *testing.T) {
		b, _ := withheld(t)
		was := b.read()
		b.end()
		for range 3 {
			if after := b.pass().RequeueAfter; after <= 0 || after > time.Minute {
				t.Errorf("the next reconcile is after %v", after)
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
	t.Run("a CRD whose deletion begins during the drain delays the deletion of the server until the CRD no longer blocks it (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		g.why = ""
		b.end()
		b.shown()
		if got := b.deleting().Reason; got != "DrainingNode" {
			t.Fatalf("it is %s", got)
		}
		g.why = "m"
		b.wait(3 * time.Hour)
		b.pass()
		if b.cloud.count("DeleteServer") != 0 {
			t.Error("the server was deleted at the drain's deadline")
		}
		g.why = ""
		b.drains(time.Minute)
		if b.cloud.count("DeleteServer") != 0 || b.deleting().Reason != "DrainingNode" {
			t.Errorf("the time in which the deletion was withheld counts as time of the drain (F-138): %+v", b.deleting())
		}
		b.drains(2 * time.Hour)
		if b.cloud.count("DeleteServer") != 1 {
			t.Errorf("the deletion does not continue: %+v", b.deleting())
		}
	})
	t.Run("drover's first check requires a new read of the CRDs, and its later checks may reuse a recent read (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		g.why = ""
		b.end()
		b.pass()
		b.wait(time.Second)
		b.pass()
		if len(g.asked) != 2 || g.asked[0] || !g.asked[1] {
			t.Errorf("calls with begun: %v", g.asked)
		}
	})
	t.Run("checks the CRDs only when the Machine is being deleted (F-42)", func(t *testing.T) {
		b, g := withheld(t)
		b.pass()
		if len(g.asked) != 0 {
			t.Errorf("%d checks", len(g.asked))
		}
	})
}
