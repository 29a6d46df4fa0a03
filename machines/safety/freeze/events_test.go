package freeze

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhichChangesTheFreezeControllerNotices(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.MachineDeployment){
		"notices a change of the freeze label (MCM-78)":     func(d *v1alpha1.MachineDeployment) { mark(d, true, "", "") },
		"notices a change of the condition Frozen (MCM-78)": func(d *v1alpha1.MachineDeployment) { mark(d, false, "True", ReasonOvershoot) },
		"notices a new unfreeze annotation (MCM-77)": func(d *v1alpha1.MachineDeployment) {
			d.Annotations = map[string]string{v1alpha1.AnnotationUnfreeze: ""}
		},
		"notices a change of the paused annotation":     func(d *v1alpha1.MachineDeployment) { d.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} },
		"notices the deletion of a deployment (MCM-76)": func(d *v1alpha1.MachineDeployment) { d.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(5)
			change(d)
			if stateOf(d) == stateOf(newDeployment(5)) {
				t.Error("stateOf() is the same after the change")
			}
		})
	}
	t.Run("ignores a change of status.replicas and status.observedGeneration", func(t *testing.T) {
		d := newDeployment(5)
		d.Status.Replicas, d.Status.ObservedGeneration = 7, 2
		if stateOf(d) != stateOf(newDeployment(5)) {
			t.Error("stateOf() differs after a change of counters")
		}
	})
}
