package deployment

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons of the Events about what another client has written into a set.
const (
	reasonSizeSetBack     = "SizeSetBack"
	reasonTemplateSetBack = "TemplateSetBack"
)

// writerOf returns who wrote a field of a set's spec, for an Event. It reads the set from the API server, because the informer cache has no
// managed fields.
func (w writes) writerOf(ctx context.Context, set *v1alpha1.MachineSet, field string) string {
	var now v1alpha1.MachineSet
	if err := w.live.Get(ctx, client.ObjectKeyFromObject(set), &now); err == nil {
		for _, e := range now.ManagedFields {
			var fields struct {
				Spec map[string]json.RawMessage `json:"f:spec"`
			}
			if e.FieldsV1 == nil || json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
				continue
			}
			if _, owns := fields.Spec[field]; owns && e.Manager != fieldManager {
				return "field manager " + e.Manager
			}
		}
	}
	return "another client"
}

// restoreTemplate replaces the template of a set that another client has changed, and reports this by an Event. When the API server stores
// yet another template, that one is recorded, as for a new set. The watch then enqueues the deployment again.
func (w writes) restoreTemplate(ctx context.Context, d *v1alpha1.MachineDeployment, c *rollout.TemplateChange) error {
	writer, stored := w.writerOf(ctx, c.Set, "f:template"), c.Set.DeepCopy()
	body, err := json.Marshal([]operation{
		{Op: "test", Path: "/metadata/resourceVersion", Value: c.Set.ResourceVersion},
		{Op: "replace", Path: "/spec/template", Value: c.Template},
	})
	if err != nil {
		return fmt.Errorf("encoding the template: %w", err)
	}
	if err := w.Client.Patch(ctx, stored, client.RawPatch(types.JSONPatchType, body), w.FieldManager); err != nil {
		return fmt.Errorf("restoring the template of MachineSet %s: %w", c.Set.Name, err)
	}
	w.events.Eventf(c.Set, d, "Warning", reasonTemplateSetBack, "Restore", "%s", fault.Line(fmt.Sprintf("%s changed spec.template (%s); MachineDeployment %s decides the template of this set, so it was set back: change spec.template of the MachineDeployment instead",
		writer, strings.Join(rollout.TemplateDifferences(c.Template, &c.Set.Spec.Template), "; "), d.Name)))
	return w.compare(ctx, d, stored)
}
