package machine_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestAForcedDeletion(t *testing.T) {
	t.Run("ends within 5 minutes when the cloud never releases what it holds, and an Event names it (F-25)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.unreleased = true
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.end()
		start := b.clock.Now()
		for b.read().Name != "" {
			after := b.pass().RequeueAfter
			if b.read().Name == "" {
				break
			}
			if after == 0 {
				t.Fatal("nothing wakes the Machine")
			}
			b.wait(after)
			if took := b.clock.Now().Sub(start); took > 5*time.Minute {
				t.Fatalf("not gone after %s: %+v", took, b.deleting())
			}
		}
		if got := b.events(); !strings.Contains(got, "may be left") {
			t.Errorf("%s", got)
		}
	})
	t.Run("whose last write finds no Machine, because the API server does not serve them just now, is looked at again (F-28)", func(t *testing.T) {
		b := joined(t, nil)
		b.end()
		refused := false
		b.patches.before = func(o client.Object) error {
			if _, isMachine := o.(*v1alpha1.Machine); isMachine && len(o.GetFinalizers()) == 0 && !refused {
				refused = true
				return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, o.GetName())
			}
			return nil
		}
		for n := 0; b.read().Name != "" && n < 5; n++ {
			after := b.pass().RequeueAfter
			if after == 0 && b.read().Name != "" {
				t.Fatal("nothing wakes the Machine")
			}
			b.wait(after)
		}
		if b.read().Name != "" || !refused {
			t.Error("the Machine is still there")
		}
	})
	t.Run("whose last write is refused goes with the next one, and its Event is not lost (F-28)", func(t *testing.T) {
		b := joined(t, nil)
		b.cloud.refusal = fault.New(fault.Auth, fault.CodeForbidden, "you may not")
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.end()
		refused := 0
		b.patches.before = func(o client.Object) error {
			if _, isMachine := o.(*v1alpha1.Machine); isMachine && len(o.GetFinalizers()) == 0 && refused == 0 {
				refused++
				return apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, o.GetName(), nil)
			}
			return nil
		}
		for range 3 {
			if gone := b.read().Name == ""; gone {
				break
			}
			b.pass()
			b.wait(time.Second)
		}
		if got := b.events(); b.read().Name != "" || !strings.Contains(got, "may be left") {
			t.Errorf("refused %d times: %s", refused, got)
		}
	})
}
