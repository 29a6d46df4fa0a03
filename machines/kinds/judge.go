package kinds

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Names of the definitions that own Machines, directly or through a set, and of the Machines' own.
const (
	machines    = "machines.cluster.k8s.io"
	sets        = "machinesets.cluster.k8s.io"
	deployments = "machinedeployments.cluster.k8s.io"
)

// Names are those of drover's CustomResourceDefinitions.
var Names = []string{"clusters.cluster.k8s.io", "machineclasses.cluster.k8s.io", deployments, machines, sets}

// howToKeep ends every message: the page that says how servers and Nodes are kept.
const howToKeep = `To keep them, see "When a definition was deleted by mistake" in docs/operations.md`

// definition is what matters of a CustomResourceDefinition.
type definition struct {
	name string
	// missing: it is not there. going: it is being deleted. allowed: it has the annotation that allows its deletion.
	missing, going, allowed bool
	created                 metav1.Time
}

// definitionOf returns what matters of a CustomResourceDefinition that is there.
func definitionOf(crd *metav1.PartialObjectMetadata) definition {
	return definition{
		name: crd.Name, going: crd.DeletionTimestamp != nil, created: crd.CreationTimestamp,
		allowed: crd.Annotations[v1alpha1.AnnotationAllowDeletion] == "true",
	}
}

// judge returns why no Machine may be drained or deleted; empty when Machines may. A definition that is being deleted
// must allow that itself. One that is missing cannot, and the garbage collector may still be deleting the Machines that
// its objects owned; so the definition of Machines must allow their deletion.
func judge(all []definition) string {
	mayGo := allows(all, machines)
	var going, missing, ask []string
	for _, d := range all {
		switch {
		case d.going && !d.allowed:
			going, ask = append(going, d.name), append(ask, d.name)
		case d.missing && !mayGo:
			missing, ask = append(missing, d.name), append(ask, machines)
		}
	}
	if len(ask) == 0 {
		return ""
	}
	var found []string
	if len(going) > 0 {
		found = append(found, "being deleted: "+strings.Join(going, ", "))
	}
	if len(missing) > 0 {
		found = append(found, "missing: "+strings.Join(missing, ", "))
	}
	return withheld("of drover's CustomResourceDefinitions are "+strings.Join(found, "; "), ask...)
}

// withheld says what keeps a deletion from going on, and how it goes on either way.
func withheld(why string, ask ...string) string {
	slices.Sort(ask)
	return fmt.Sprintf("%s. Deleting those deletes Machines, so their servers and Nodes are left as they are. To delete them: kubectl annotate crd %s %s=true. %s",
		why, strings.Join(slices.Compact(ask), " "), v1alpha1.AnnotationAllowDeletion, howToKeep)
}

// allows reports whether the definition of that name allows its deletion.
func allows(all []definition, name string) bool {
	return slices.ContainsFunc(all, func(d definition) bool { return d.name == name && d.allowed })
}

// outlived returns the definition of an owner that was made after the Machine was: the Machine's owners then went with the
// definition that stood there before. ok is false when there is none, when no set owns the Machine, or when the definition
// of Machines allows their deletion.
func outlived(all []definition, m *v1alpha1.Machine) (since definition, ok bool) {
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
