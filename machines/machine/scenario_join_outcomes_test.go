package machine_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestJoinOutcomesAreWritten(t *testing.T) {
	t.Run("writes a failed join to status.joinOutcomes and to status.recentJoins (CAPI-26)", func(t *testing.T) {
		b := newBench(t, deployed)
		b.late()
		st := b.pool().Status
		if want := []v1alpha1.JoinOutcome{v1alpha1.JoinFailed}; !slices.Equal(st.JoinOutcomes, want) || st.RecentJoins != "f" {
			t.Errorf("got %v and %q, want %v and %q", st.JoinOutcomes, st.RecentJoins, want, "f")
		}
	})
	t.Run("writes a failed join only to status.recentJoins when an older CRD lacks status.joinOutcomes (CAPI-26)", func(t *testing.T) {
		b := newBench(t, deployed)
		b.memory.client = interceptor.NewClient(b.memory.client.(client.WithWatch), interceptor.Funcs{SubResourceApply: withoutTypedOutcomes})
		b.restart()
		b.late()
		st := b.pool().Status
		if st.JoinOutcomes != nil || st.RecentJoins != "f" {
			t.Errorf("got %v and %q, want none and %q", st.JoinOutcomes, st.RecentJoins, "f")
		}
	})
}

// withoutTypedOutcomes answers as an API server does whose schema lacks status.joinOutcomes (see
// TestWritesOfThePreviousAndThisReleaseToTheSameGroupStatus in machines/backoff).
func withoutTypedOutcomes(ctx context.Context, c client.Client, name string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	if _, typed := raw["status"].(map[string]any)["joinOutcomes"]; typed {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "field not declared in schema"}}
	}
	return c.SubResource(name).Apply(ctx, o, opts...)
}
