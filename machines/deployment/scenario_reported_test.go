package deployment

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

func TestAChangeOfOneNumberOfTheStatus(t *testing.T) {
	for _, field := range []string{"Replicas", "UpdatedReplicas", "ReadyReplicas", "AvailableReplicas", "UnavailableReplicas"} {
		t.Run("is written 15 seconds after the write before at the latest, when "+field+" alone has changed (report 148)", func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md"}, Status: updating()}
			writes := 0
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d).WithInterceptorFuncs(interceptor.Funcs{
				SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
					writes++
					return nil
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					writes++
					return nil
				},
			}).Build()
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			s := &statuses{Statuses: ownership.Statuses{Writer: ownership.Writer{Client: c, FieldManager: "test"}, Clock: clock}, events: events.NewFakeRecorder(10)}
			change := func() {
				now := *d.Status.DeepCopy()
				number := reflect.ValueOf(&now).Elem().FieldByName(field)
				number.SetInt(number.Int() + 1)
				left, err := s.writeWhenDue(t.Context(), d, now)
				if err != nil {
					t.Fatal(err)
				}
				if left > 0 {
					clock.SetTime(clock.Now().Add(left))
					if left > statusInterval {
						t.Errorf("it waits for %s", left)
					}
					if _, err := s.writeWhenDue(t.Context(), d, now); err != nil {
						t.Fatal(err)
					}
				}
				d.Status = now
			}
			for n := range 3 {
				if change(); writes != n+1 {
					t.Fatalf("%d writes after %d changes", writes, n+1)
				}
			}
		})
	}
}

func TestNodesAfterTheEndOfARollout(t *testing.T) {
	deployment := types.NamespacedName{Namespace: "ns", Name: "md"}
	const nodes = 2*nodesPerReconcile + 10
	for name, failing := range map[string]error{
		"":                           nil,
		", although writes conflict": apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("the kubelet was first")),
		", although writes fail":     errors.New("EOF"),
	} {
		t.Run("lose the annotation that forbids a scale-down, however many there are"+name+" and drover restarts (report 150)", func(t *testing.T) {
			var all []client.Object
			for n := range nodes {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%03d", n), UID: types.UID(fmt.Sprint(n))}}
				all = append(all, patched(t, node, addPatch(node, rolledBy)))
			}
			calls := 0
			c := fake.NewClientBuilder().WithObjects(all...).WithIndex(&corev1.Node{}, rollingIndex, rollingDeployment).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if calls++; failing != nil && calls%2 == 1 {
						return failing
					}
					return c.Patch(ctx, o, p, opts...)
				},
			}).Build()
			// A reconcile is repeated when it fails, and when it says that some Nodes are left.
			rounds := 0
			for more := true; more && rounds < 50; rounds++ {
				var err error
				more, err = rolledNodes{ownership.Writer{Client: c, FieldManager: fieldManager}}.sync(t.Context(), deployment, rollout.Plan{})
				more = more || err != nil
			}
			var left corev1.NodeList
			if err := c.List(t.Context(), &left); err != nil {
				t.Fatal(err)
			}
			marked := 0
			for i := range left.Items {
				if n := &left.Items[i]; hasTaint(n) || n.Annotations[v1alpha1.AnnotationScaleDownDisabled] != "" {
					marked++
				}
			}
			if marked > 0 {
				t.Errorf("%d of %d Nodes are still marked after %d reconciles", marked, nodes, rounds)
			}
		})
	}
}
