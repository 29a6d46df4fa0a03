package day

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// crds returns drover's CustomResourceDefinitions.
func crds() ([]*unstructured.Unstructured, error) { return deploy.Objects("crds") }

// contextOf returns a context that ends with the world, or before.
func contextOf(w *World) (context.Context, context.CancelFunc) { return context.WithCancel(w.ctx) }

// theEnd checks that all that is there belongs to a Machine, deletes the pools, and checks that nothing is left.
func (w *World) theEnd() {
	w.within(30*time.Minute, "each server, port and floating IP has a Machine", w.balanced)
	w.log("drover was started %d times after the first; %d Machines were made, %d unhealthy ones replaced, %d rolled; a pod waited for %v at the most", w.counts.starts.Load(), len(w.judge.made), w.judge.healed, w.judge.rolled, w.judge.slowest)
	calls := w.counts.calls()
	w.log("calls to the API server:%s", lines(calls))
	w.log("calls to the cloud:%s", lines(w.Cloud.CallsByName()))
	w.judge.excused["end"], w.judge.patience = true, 24*hour
	for _, p := range pools {
		d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name}}
		w.must(w.Admin.Delete(w.ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	w.within(hour, "nothing is left", func() bool {
		left := w.Cloud.Leftovers()
		return w.balanced() && len(left.Servers) == 0 && len(left.Volumes) == 0 && len(w.nodes) == 0 && w.tokens() == 0
	})
}

// tokens returns how many bootstrap tokens of drover's there are.
func (w *World) tokens() int {
	var list corev1.SecretList
	w.must(w.Admin.List(w.ctx, &list, client.HasLabels{v1alpha1.LabelTokenMachine}))
	return len(list.Items)
}
