package freeze

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// growing returns a client with a deployment of one Machine. After the client's first answer the size is raised to ten, and
// the new Machines are created.
func growing(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	d := newDeployment(1)
	set := newSet("set", 1, d)
	all := machinesOf(set, 10)
	grown := false
	grow := func(ctx context.Context, c client.Client, err error) error {
		if grown || err != nil {
			return err
		}
		grown = true
		d.Spec.Replicas, set.Spec.Replicas = ptr.To[int32](10), ptr.To[int32](10)
		for _, o := range []client.Object{d, set} {
			if err := c.Update(ctx, o); err != nil {
				return err
			}
		}
		for _, m := range all[1:] {
			if err := c.Create(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d, set, all[0]).Build()
	for _, o := range []client.Object{d, set} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return grow(ctx, c, c.Get(ctx, key, o, opts...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return grow(ctx, c, c.List(ctx, list, opts...))
		},
	})
}

func TestAGroupWhoseSizeRisesWhileItsObjectsAreReadIsNotFrozen(t *testing.T) {
	t.Run("a group is not frozen for additional Machines when its size rises between two reads of its objects (MCM-70)", func(t *testing.T) {
		r := reading{live: growing(t)}
		g, err := r.current(t.Context(), key{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "md"}, deployment: true})
		if err != nil {
			t.Fatal(err)
		}
		if v := Judge(g, defaults, noon.Add(time.Hour)); v.Frozen {
			t.Errorf("the group is frozen: %+v", v)
		}
	})
}
