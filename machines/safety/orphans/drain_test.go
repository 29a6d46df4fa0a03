package orphans

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestANodeIsReadAgainBeforeItsDrain(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.start()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	w.must(w.client.Create(t.Context(), n))
	w.ready(n, corev1.ConditionTrue)
	for name, tc := range map[string]struct {
		change func(judged *verdict.Node)
		drains bool
	}{
		"a Node that has not changed since drover decided to drain it is drained (MCM-81)":              {func(*verdict.Node) {}, true},
		"a Node that became Ready after drover had decided to drain it is not drained (MCM-81)":         {func(judged *verdict.Node) { judged.Ready = false }, false},
		"a new Node with the name of the Node that drover had decided to drain is not drained (MCM-81)": {func(judged *verdict.Node) { judged.UID = "another" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			judged := nodeOf(n, w.cloud)
			tc.change(&judged)
			if waiting, err := w.drain(t.Context(), &judged); waiting != "" || (err == nil) != tc.drains || w.now(n).Spec.Unschedulable != tc.drains {
				t.Errorf("waits for %q, %v", waiting, err)
			}
			n.Spec.Unschedulable, n.Spec.Taints = false, nil
			n.ResourceVersion = ""
			w.must(w.client.Update(t.Context(), n))
		})
	}
}

func TestADrainThatFailsDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.start()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	w.must(w.client.Create(t.Context(), n))
	w.cached(n)
	same := nodeOf(n, w.cloud)
	other := same
	other.UID = "another"
	asked := &refusing{Cloud: w.cloud}
	w.Cloud, w.MaxPerPass = asked, 1
	w.act(t.Context(), &verdict.Verdict{Judged: true, Orphans: []verdict.Orphan{
		{Resource: cloud.Resource{Kind: cloud.ResourceServer, ID: "a"}, Node: &other, Delete: true},
		{Resource: cloud.Resource{Kind: cloud.ResourceServer, ID: "b"}, Node: &same, Delete: true},
	}})
	if len(asked.asked) != 1 || asked.asked[0] != "b" || len(w.draining) > 0 {
		t.Errorf("a drain that cannot begin counts towards the limit (MCM-81): deleted %v, draining %v", asked.asked, w.draining)
	}
}
