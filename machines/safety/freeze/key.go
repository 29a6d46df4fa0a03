package freeze

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// key identifies a group: a MachineDeployment, or a MachineSet without a deployment.
type key struct {
	types.NamespacedName
	deployment bool
}

// kind is the kind of the group's owner.
func (k key) kind() string {
	if k.deployment {
		return v1alpha1.MachineDeploymentKind.Kind
	}
	return v1alpha1.MachineSetKind.Kind
}

func keyOfDeployment(d *v1alpha1.MachineDeployment) key {
	return key{client.ObjectKeyFromObject(d), true}
}

// keyOfSet returns the key of a set's group: the deployment that controls the set, or otherwise the set itself.
func keyOfSet(set *v1alpha1.MachineSet) key {
	if ref := metav1.GetControllerOfNoCopy(set); ref != nil && ref.Kind == v1alpha1.MachineDeploymentKind.Kind {
		return key{types.NamespacedName{Namespace: set.Namespace, Name: ref.Name}, true}
	}
	return key{client.ObjectKeyFromObject(set), false}
}
