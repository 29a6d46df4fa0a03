package machine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// tries reconciles the Machine the given number of times, 30 s apart, whether a reconcile fails or not.
func (b *bench) tries(times int) {
	b.t.Helper()
	for range times {
		b.written.counting = true
		_, _ = b.machine.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: b.key})
		b.written.counting = false
		b.wait(30 * time.Second)
	}
}

// hasTemplate checks that the Node has the label, the annotation and the taint of templated, and those of others.
func (b *bench) hasTemplate() {
	b.t.Helper()
	n := b.node()
	if n.Labels["team"] != "blue" || n.Annotations["note"] != "x" || !hasTaint(n, "gpu") {
		b.t.Errorf("the Node has the labels %v, the annotations %v and the taints %v", n.Labels, n.Annotations, n.Spec.Taints)
	}
}

// booted returns a bench whose Machine has an ACTIVE server and no Node yet.
func booted(t *testing.T, change func(*v1alpha1.Machine)) *bench {
	t.Helper()
	b := newBench(t, change)
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.pass()
	return b
}

func TestANodeGetsTheMarksOfItsTemplate(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "m", errors.New("the kubelet was first"))
	for _, tt := range []struct {
		name string
		do   func(b *bench)
	}{
		{"although each of the first ten writes of the Node conflicts (report 23, report 24)", func(b *bench) {
			left := 10
			b.failing = func(call string) error {
				if call == "PATCH *v1.Node" && left > 0 {
					left--
					return conflict
				}
				return nil
			}
			b.create(b.nodeOf())
			b.tries(20)
			if left > 0 {
				b.t.Errorf("%d writes of the Node, want ten and more", 10-left)
			}
		}},
		{"although drover ends right after each failed write of the Node (report 24)", func(b *bench) {
			b.failing = func(call string) error {
				if call == "PATCH *v1.Node" {
					return errors.New("EOF")
				}
				return nil
			}
			b.create(b.nodeOf())
			for range 5 {
				b.tries(1)
				b.restart()
			}
			b.failing = nil
			b.tries(2)
		}},
		{"although the watch shows the Node only an hour after it is Ready (report 24)", func(b *bench) {
			b.create(b.nodeOf())
			b.withLateNodes()
			b.tries(120)
			b.restart()
			b.tries(2)
		}},
		{"although drover was away while the Node registered and became Ready (report 23, report 24)", func(b *bench) {
			b.create(b.nodeOf())
			b.wait(24 * time.Hour)
			b.restart()
			b.tries(2)
		}},
		{"again when its Node object was deleted and registers again, even when drover restarts in between (report 27, report 84)", func(b *bench) {
			b.create(b.nodeOf())
			b.tries(2)
			b.hasTemplate()
			b.remove(b.node())
			b.tries(1)
			b.restart()
			b.create(b.nodeOf())
			b.tries(2)
		}},
		{"again when its Node object was deleted and registers again before the watch has shown the deletion (report 27, report 84)", func(b *bench) {
			b.create(b.nodeOf())
			b.tries(2)
			b.remove(b.node())
			again := b.nodeOf()
			again.UID = types.UID("again")
			b.create(again)
			b.tries(2)
		}},
		{"again when its Node object was deleted a day ago, and the Machine has not been given up (report 84)", func(b *bench) {
			b.create(b.nodeOf())
			b.tries(2)
			b.remove(b.node())
			for range 24 {
				b.wait(time.Hour)
				b.tries(1)
			}
			b.create(b.nodeOf())
			b.tries(2)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := booted(t, templated)
			tt.do(b)
			b.hasTemplate()
			if m := b.read(); m.DeletionTimestamp != nil || m.Status.NodeRef == nil || m.Status.NodeRef.UID != b.node().UID || b.cloud.made != 1 {
				t.Errorf("the Machine's Node is %+v, and %d servers were made", m.Status.NodeRef, b.cloud.made)
			}
		})
	}
}

func TestMarksThatAnotherProgramRemovesTogether(t *testing.T) {
	t.Run("are written to the Node at most six times although drover restarts once, and Warnings names each (report 25)", func(t *testing.T) {
		b := joined(t, templated)
		b.shown()
		writes := b.patches.count["*v1.Node"]
		for k := range 40 {
			if k == 20 {
				b.restart()
			}
			b.changes(func(n *corev1.Node) {
				n.Spec.Taints = nil
				delete(n.Labels, "team")
				delete(n.Annotations, "note")
			})
			b.wait(10 * time.Second)
		}
		if n := b.patches.count["*v1.Node"] - writes; n > 6 {
			t.Errorf("%d writes of the Node", n)
		}
		b.shown()
		warned := find(b.read(), v1alpha1.ConditionWarnings).Message
		for _, mark := range []string{"taint gpu:NoSchedule", "label team", "annotation note"} {
			if !strings.Contains(warned, mark) {
				t.Errorf("the warnings lack %q: %s", mark, warned)
			}
		}
	})
}

func TestMachinesAtRest(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Machine){
		"of a set":                 owned,
		"of a deployment":          deployed,
		"without an owner":         nil,
		"with marks for its Nodes": templated,
	} {
		t.Run("a Machine "+name+" and its Node are not written by twenty restarts and a day of reconciles (report 99, report 149)", func(t *testing.T) {
			b := joined(t, change)
			b.shown()
			b.written = tally{}
			b.cloud.calls = map[string]int{}
			for range 20 {
				b.restart()
				for range 3 {
					b.pass()
				}
				b.wait(time.Hour)
			}
			if n := b.written.all(); n != 0 || len(b.cloud.calls) != 0 {
				t.Errorf("%d writes: %v; calls %v", n, b.written.made, b.cloud.calls)
			}
		})
	}
}

func TestTheNodeOfAServerThatIsGone(t *testing.T) {
	gone := func(b *bench) { b.cloud.change("u", func(s *fakeServer) { s.exists = false }) }
	scaledDown := func(b *bench) { b.end() }
	for name, begin := range map[string]func(b *bench){"a server that was deleted by hand": gone, "a scale-down": scaledDown} {
		for _, tt := range []struct {
			name string
			do   func(b *bench)
		}{
			{"", func(*bench) {}},
			{" although the watch has not shown the Node yet", (*bench).withLateNodes},
			{" although each third call to the API server fails and drover restarts", func(b *bench) {
				n := 0
				b.failing = func(string) error {
					if n++; n%3 == 0 {
						return apierrors.NewInternalError(errors.New("etcd is slow"))
					}
					return nil
				}
				for range 10 {
					b.tries(1)
					b.restart()
				}
				b.failing = nil
			}},
			{" although the kubelet had stopped an hour before", func(b *bench) {
				b.nodeReadyWithoutPass(corev1.ConditionUnknown)
				b.wait(time.Hour)
			}},
		} {
			t.Run("is deleted after "+name+tt.name+" (report 106, report 152)", func(t *testing.T) {
				b := joined(t, owned)
				begin(b)
				tt.do(b)
				b.tries(20)
				if b.node().Name != "" || b.read().Name != "" {
					t.Errorf("the Node is %q, the Machine %q: %+v", b.node().Name, b.read().Name, b.deleting())
				}
			})
		}
	}
	t.Run("is deleted although the pod of a StatefulSet on it never ends, and its volume is attached (report 108)", func(t *testing.T) {
		b := joined(t, owned)
		p := stubborn("db-0")
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: new(true)}}
		b.create(p)
		b.attach("pv-1")
		b.nodeReadyWithoutPass(corev1.ConditionUnknown)
		gone(b)
		b.tries(30)
		if b.node().Name != "" || b.read().Name != "" {
			t.Errorf("the Node is %q, the Machine %q: %+v", b.node().Name, b.read().Name, b.deleting())
		}
	})
}

// nodeReadyWithoutPass writes the condition Ready of the Machine's Node.
func (b *bench) nodeReadyWithoutPass(status corev1.ConditionStatus) {
	b.t.Helper()
	n := b.node()
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(b.clock.Now())
	if err := b.memory.client.Status().Update(b.t.Context(), n); err != nil {
		b.t.Fatal(err)
	}
}
