package capacity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// subject is an object with a node template: a MachineDeployment, or a MachineSet that is a node group of its own.
type subject struct {
	client.Object
	kind     schema.GroupVersionKind
	template *v1alpha1.MachineTemplateSpec
	selector *metav1.LabelSelector
	// owners holds the owners of the Machines that are created from the template.
	owners     bootstrap.Owners
	known      *v1alpha1.NodeTemplate
	conditions []metav1.Condition
}

func ofDeployment(d *v1alpha1.MachineDeployment) *subject {
	return &subject{
		Object: d, kind: v1alpha1.MachineDeploymentKind, template: &d.Spec.Template, selector: &d.Spec.Selector,
		owners: bootstrap.Owners{Deployment: d},
		known:  d.Status.NodeTemplate, conditions: d.Status.Conditions,
	}
}

func ofSet(s *v1alpha1.MachineSet) *subject {
	return &subject{
		Object: s, kind: v1alpha1.MachineSetKind, template: &s.Spec.Template, selector: &s.Spec.Selector,
		owners: bootstrap.Owners{Set: s},
		known:  s.Status.NodeTemplate, conditions: s.Status.Conditions,
	}
}
