package deployment

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// rollBack puts back the template that the annotation rollback-to asks for and takes the annotation off, in one write. It
// says whether there was such an annotation; the watch then brings the deployment back.
func (r *Reconciler) rollBack(ctx context.Context, s rollout.Snapshot) (bool, error) {
	p := rollout.Rollback(s.Deployment, s.Sets)
	if p == nil {
		return false, nil
	}
	d := s.Deployment
	patch := []operation{
		{Op: "test", Path: "/metadata/resourceVersion", Value: d.ResourceVersion},
		{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AnnotationRollbackTo, "/", "~1")},
	}
	if p.Template != nil {
		patch = append(patch, operation{Op: "replace", Path: "/spec/template", Value: p.Template})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return true, fmt.Errorf("encoding the rollback: %w", err)
	}
	if err := r.client.Patch(ctx, d.DeepCopy(), client.RawPatch(types.JSONPatchType, body), client.FieldOwner(FieldManager)); err != nil {
		return true, fmt.Errorf("rolling back: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("rollback", "reason", p.Reason, "message", p.Message)
	kind := "Normal"
	if p.Failed {
		kind = "Warning"
	}
	r.events.Eventf(d, nil, kind, p.Reason, "Rollback", "%s", p.Message)
	return true, nil
}
