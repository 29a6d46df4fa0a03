package drain

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestCordonKeepsNewPodsAndConnectionsOffTheNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}}}
	patches := 0
	c := fake.NewClientBuilder().WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	read := func() *corev1.Node {
		n := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("one patch cordons the Node, taints it, excludes it from load balancers, and keeps the autoscaler's taint (CAPI-37, CA-C81)", func(t *testing.T) {
		stale := read()
		for range 2 {
			if _, err := Cordon(t.Context(), c, read(), noon); err != nil {
				t.Fatal(err)
			}
		}
		n := read()
		_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
		if patches != 1 || !n.Spec.Unschedulable || !excluded || len(n.Spec.Taints) != 2 || n.Spec.Taints[1].Key != v1alpha1.TaintDeleting {
			t.Errorf("%d patches, node %+v", patches, n)
		}
		if _, err := Cordon(t.Context(), c, stale, noon); !apierrors.IsConflict(err) {
			t.Errorf("Cordon() of an outdated node = %v, want a Conflict", err)
		}
	})
	t.Run("removes the label of the Node's GPUs, also from a Node that is cordoned already (F-125)", func(t *testing.T) {
		n := read()
		n.Labels[v1alpha1.LabelGPU] = "a100"
		if err := c.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := Cordon(t.Context(), c, read(), noon); err != nil {
			t.Fatal(err)
		}
		if _, there := read().Labels[v1alpha1.LabelGPU]; there {
			t.Error("the label is there")
		}
	})
	t.Run("adds drover's taint beside a taint of the same key with another effect (F-47)", func(t *testing.T) {
		n := read()
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintDeleting, Effect: corev1.TaintEffectPreferNoSchedule}}
		if err := c.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := Cordon(t.Context(), c, read(), noon); err != nil {
			t.Fatal(err)
		}
		if got := read().Spec.Taints; len(got) != 2 || got[1].Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("taints %v", got)
		}
	})
}
