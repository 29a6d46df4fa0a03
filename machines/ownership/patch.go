package ownership

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes fields of objects under one field manager.
type Writer struct {
	Client       client.Client
	FieldManager client.FieldOwner
}

// Merge writes the given fields by a merge patch; a nil value removes a field. It updates object from the answer.
func (w Writer) Merge(ctx context.Context, object client.Object, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	return w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), w.FieldManager)
}

// ApplyStatus writes the fields of status by server-side apply, and takes over fields that another field manager owns. It returns no
// error when the object does not exist, and a Conflict when another object has the same name by now.
func (w Writer) ApplyStatus(ctx context.Context, object client.Object, status any) error {
	return client.IgnoreNotFound(w.applyStatus(ctx, object, status, map[string]any{"uid": string(object.GetUID())}))
}

// ApplyStatusOf does the same, and returns a Conflict unless the object still has the resource version that was read. It returns NotFound
// when the object does not exist.
func (w Writer) ApplyStatusOf(ctx context.Context, object client.Object, status any) error {
	return w.applyStatus(ctx, object, status, map[string]any{"uid": string(object.GetUID()), "resourceVersion": object.GetResourceVersion()})
}

func (w Writer) applyStatus(ctx context.Context, object client.Object, status any, metadata map[string]any) error {
	kind, err := w.Client.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("looking up the kind: %w", err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	metadata["namespace"], metadata["name"] = object.GetNamespace(), object.GetName()
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "status": fields}}
	u.SetGroupVersionKind(kind)
	return w.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), w.FieldManager, client.ForceOwnership)
}

// Metadata returns the metadata of a merge patch that the API server refuses with a Conflict unless the object still has the UID and
// resource version that were read.
func Metadata(o client.Object) map[string]any {
	return map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion()}
}
