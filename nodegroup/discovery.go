package nodegroup

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Discovery says which objects may be node groups, beside having bounds.
type Discovery struct {
	// Namespaces are those that are looked at. Empty: all.
	Namespaces []string
	// Selector matches the labels of the object itself. Nil: everything.
	Selector labels.Selector
	// BareSets: a MachineSet that belongs to no MachineDeployment is a node group too.
	BareSets bool
}

// excludes says why an object is not looked at; empty when it is.
func (d Discovery) excludes(o *owner) string {
	if len(d.Namespaces) > 0 && !slices.Contains(d.Namespaces, o.GetNamespace()) {
		return "its namespace is not one of --namespaces"
	}
	if d.Selector != nil && !d.Selector.Matches(labels.Set(o.GetLabels())) {
		return "--selector does not match its labels"
	}
	return ""
}
