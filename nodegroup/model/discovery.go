package model

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Discovery selects the objects with bounds that may be node groups.
type Discovery struct {
	// Namespaces are the namespaces whose objects may be node groups. Default: all namespaces.
	Namespaces []string
	// Selector selects the objects by their labels. Default: all objects.
	Selector labels.Selector
	// BareSets makes a MachineSet with bounds a node group even if it does not belong to a MachineDeployment. Default:
	// false.
	BareSets bool
	// Cloud reads provider IDs and provider specs. Required.
	Cloud cloud.Provider
}

// refuses returns the reason why an object is not a node group, or "" when it is one (CA-C17, C18). err is the error of
// reading the object's bounds.
func (d Discovery) refuses(o *membership.Owner, bounds v1alpha1.Bounds, err error) string {
	size := rollout.CheckSize(o.Replicas)
	switch {
	case err != nil:
		return err.Error()
	case !bounds.Listed:
		return "it has no maximum size"
	case size != nil:
		return size.Error()
	case !o.GetDeletionTimestamp().IsZero():
		return "it is being deleted"
	case o.Paused():
		return "it is paused by annotation"
	case len(d.Namespaces) > 0 && !slices.Contains(d.Namespaces, o.GetNamespace()):
		return "its namespace is not one of --namespaces"
	case d.Selector != nil && !d.Selector.Matches(labels.Set(o.GetLabels())):
		return "--selector does not match its labels"
	}
	return ""
}
