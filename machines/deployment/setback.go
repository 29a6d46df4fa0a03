package deployment

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons of the Events about what another client has written into a set.
const (
	reasonSizeSetBack     = "SizeSetBack"
	reasonTemplateSetBack = "TemplateSetBack"
)

// writerOf returns who wrote a field of a set's spec, for an Event.
func writerOf(set *v1alpha1.MachineSet, field string) string {
	if manager := ownership.WriterOf(set, field, fieldManager); manager != "" {
		return "field manager " + manager
	}
	return "another client"
}

// restoreTemplate replaces the template of a set that another client has changed, and reports this by an Event. When the API server stores
// yet another template, that one is recorded, as for a new set. The watch then enqueues the deployment again.
func (w writes) restoreTemplate(ctx context.Context, d *v1alpha1.MachineDeployment, c *rollout.TemplateChange) error {
	stored := c.Set.DeepCopy()
	if err := w.edit(ctx, stored, operation{Op: "replace", Path: "/spec/template", Value: c.Template}); err != nil {
		return fmt.Errorf("restoring the template of MachineSet %s: %w", c.Set.Name, err)
	}
	w.events.Eventf(c.Set, d, "Warning", reasonTemplateSetBack, "Restore", "%s", fault.Line(fmt.Sprintf("%s changed spec.template (%s); MachineDeployment %s decides the template of this set, so it was set back: change spec.template of the MachineDeployment instead",
		writerOf(c.Set, ownership.FieldTemplate), strings.Join(rollout.TemplateDifferences(c.Template, &c.Set.Spec.Template), "; "), d.Name)))
	return w.compare(ctx, d, stored)
}
