package ownership

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NoController is what [ControllerOf] gives for orphans.
const NoController = "none"

// ControllerOf is an index function: the UID of the object's controller, or NoController.
func ControllerOf(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return []string{NoController}
}

// Writer writes fields of objects under its own name.
type Writer struct {
	Client       client.Client
	FieldManager client.FieldOwner
}

// Patch writes the given fields and nothing else; object takes the answer.
func (w Writer) Patch(ctx context.Context, object client.Object, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	return w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), w.FieldManager)
}

// EnsureFinalizer makes a deletion of the owner wait for what it owns, as machine-controller does.
func (w Writer) EnsureFinalizer(ctx context.Context, owner client.Object) error {
	finalizers := owner.GetFinalizers()
	if slices.Contains(finalizers, metav1.FinalizerDeleteDependents) {
		return nil
	}
	err := w.Patch(ctx, owner, map[string]any{"metadata": map[string]any{
		"resourceVersion": owner.GetResourceVersion(), "finalizers": append(slices.Clone(finalizers), metav1.FinalizerDeleteDependents),
	}})
	if err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}
