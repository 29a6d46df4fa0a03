package kinds

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Names of the CRDs whose objects own Machines, directly or through a set, and of the CRD of Machines.
const (
	machines    = "machines.cluster.k8s.io"
	sets        = "machinesets.cluster.k8s.io"
	deployments = "machinedeployments.cluster.k8s.io"
)

// Names are the names of drover's CustomResourceDefinitions.
var Names = []string{"clusters.cluster.k8s.io", "machineclasses.cluster.k8s.io", deployments, machines, sets}

// howToKeep ends every message about a blocked deletion. It refers to the documentation on keeping servers and Nodes.
const howToKeep = `To keep the servers and Nodes, see "When a definition was deleted by mistake" in docs/operations.md`

// definition is the part of a CRD's state that [judge] needs.
type definition struct {
	name string
	// missing reports whether the CRD does not exist. deleting reports whether it is being deleted. allowed reports whether
	// it has the annotation that allows its deletion.
	missing, deleting, allowed bool
	created                    metav1.Time
}

// definitionOf returns the state of a CRD that exists.
func definitionOf(crd *metav1.PartialObjectMetadata) definition {
	return definition{
		name: crd.Name, deleting: crd.DeletionTimestamp != nil, created: crd.CreationTimestamp,
		allowed: crd.Annotations[v1alpha1.AnnotationAllowDeletion] == "true",
	}
}

// judge returns why no Machine may be drained or deleted; empty when Machines may be. A CRD that is being deleted must have
// the annotation that allows its deletion. A missing CRD cannot have the annotation, and the garbage collector may still be
// deleting the Machines that objects of that CRD owned. When a CRD is missing, the CRD of Machines must therefore have the
// annotation.
func judge(all []definition) string {
	machinesAllowed := allows(all, machines)
	var deleting, missing, ask []string
	for _, d := range all {
		switch {
		case d.deleting && !d.allowed:
			deleting, ask = append(deleting, d.name), append(ask, d.name)
		case d.missing && !machinesAllowed:
			missing, ask = append(missing, d.name), append(ask, machines)
		}
	}
	if len(ask) == 0 {
		return ""
	}
	var found []string
	if len(deleting) > 0 {
		found = append(found, "being deleted: "+strings.Join(deleting, ", "))
	}
	if len(missing) > 0 {
		found = append(found, "missing: "+strings.Join(missing, ", "))
	}
	return withheld("CustomResourceDefinitions of drover are "+strings.Join(found, "; "), ask...)
}

// withheld returns a message that explains why a deletion is blocked, and how to allow it or to keep the servers.
func withheld(why string, ask ...string) string {
	slices.Sort(ask)
	return fmt.Sprintf("%s. Deleting a CustomResourceDefinition also deletes Machines, so drover keeps the servers and Nodes for now. To delete the servers and Nodes: kubectl annotate crd %s %s=true. %s",
		why, strings.Join(slices.Compact(ask), " "), v1alpha1.AnnotationAllowDeletion, howToKeep)
}

// allows reports whether the CRD with the given name has the annotation that allows its deletion.
func allows(all []definition, name string) bool {
	return slices.ContainsFunc(all, func(d definition) bool { return d.name == name && d.allowed })
}

// recreatedOwner returns the CRD of sets or deployments if that CRD was created after the Machine. In that case the CRD was
// deleted and created again, and the Machine's owners were deleted with the earlier CRD. ok is false when both CRDs are older
// than the Machine, when no set owns the Machine, or when the CRD of Machines allows the deletion of Machines.
func recreatedOwner(all []definition, m *v1alpha1.Machine) (since definition, ok bool) {
	owner := metav1.GetControllerOf(m)
	if owner == nil || owner.Kind != v1alpha1.MachineSetKind.Kind || allows(all, machines) {
		return definition{}, false
	}
	for _, d := range all {
		if (d.name == sets || d.name == deployments) && m.CreationTimestamp.Before(&d.created) {
			return d, true
		}
	}
	return definition{}, false
}
