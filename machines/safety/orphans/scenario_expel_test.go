package orphans

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestANodeThatRegistersAgainWithTheCertificateOfADeadMachineGetsNoPods(t *testing.T) {
	w := newWorldInMemory(t)
	w.watch()
	w.start()
	warnings := events.NewFakeRecorder(10)
	w.target = warnings
	w.machine("a")
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool-a"}}
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = map[string]string{"pool": "a"}, map[string]string{"pool": "a"}
	w.must(w.client.Create(t.Context(), d))
	// register registers a Ready Node as a kubelet that claims nothing.
	register := func(name string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.must(w.client.Create(t.Context(), n))
		w.ready(n, corev1.ConditionTrue)
		return n
	}
	dead, byHand := register("pool-a-74cf5b9d8b-x2k9p"), register("pool-a-by-hand")
	w.later()
	inOrder(t, "the Node has a NoExecute taint after the next round, and a Warning names the cause (F-97)", func(t *testing.T) {
		now := w.now(dead)
		if len(now.Spec.Taints) != 1 || now.Spec.Taints[0] != machineGone {
			t.Errorf("taints %v", now.Spec.Taints)
		}
		if len(warnings.Events) != 2 {
			t.Fatalf("%d Events; found %s", len(warnings.Events), w.shown())
		}
		found, warning := <-warnings.Events, <-warnings.Events
		if !strings.HasPrefix(found, "Normal OrphanFound") || !strings.HasPrefix(warning, "Warning NodeOutlivesMachine") || !strings.Contains(warning, "certificate") {
			t.Errorf("Events %q, %q", found, warning)
		}
	})
	inOrder(t, "a Node with a name that no Machine has is not tainted (F-97)", func(t *testing.T) {
		if taints := w.now(byHand).Spec.Taints; len(taints) > 0 {
			t.Errorf("taints %v", taints)
		}
	})
	inOrder(t, "another round writes nothing and warns of nothing (F-97)", func(t *testing.T) {
		w.cached(w.now(dead))
		before := w.now(dead).ResourceVersion
		w.later()
		if after := w.now(dead).ResourceVersion; after != before || len(warnings.Events) > 0 {
			t.Errorf("resource version %s, then %s; %d Events", before, after, len(warnings.Events))
		}
	})
	inOrder(t, "a Node whose Machine appears between decision and write is not tainted (F-97)", func(t *testing.T) {
		late := register("pool-a-74cf5b9d8b-z4z4z")
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: late.Name}}
		snapshot := w.gather(t.Context(), false)
		w.must(w.client.Create(t.Context(), m))
		w.eventually("the cache has the Machine", func() bool {
			return w.mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(m), m.DeepCopy()) == nil
		})
		v := verdict.Judge(snapshot)
		i := slices.IndexFunc(v.Orphans, func(o verdict.Orphan) bool { return o.ID == late.Name && o.Expel })
		if i < 0 {
			t.Fatalf("found %+v", v.Orphans)
		}
		if err := w.expel(t.Context(), &v.Orphans[i]); err == nil || len(w.now(late).Spec.Taints) > 0 {
			t.Errorf("taints %v, error %v", w.now(late).Spec.Taints, err)
		}
	})
}
