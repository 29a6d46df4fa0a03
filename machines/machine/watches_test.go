package machine

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAnAnnotationOfADeploymentThatAppliesToItsMachinesWakesThem(t *testing.T) {
	for _, key := range inherited {
		t.Run("the removal of an empty annotation "+key+" wakes the Machines that wait (F-69)", func(t *testing.T) {
			was, is := &v1alpha1.MachineDeployment{}, &v1alpha1.MachineDeployment{}
			was.Annotations = map[string]string{key: ""}
			if !inheritedPredicate[*v1alpha1.MachineDeployment]().Update(event.TypedUpdateEvent[*v1alpha1.MachineDeployment]{ObjectOld: was, ObjectNew: is}) {
				t.Error("it does not")
			}
		})
	}
	for _, key := range []string{v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI, v1alpha1.AnnotationSkipHealthCAPI} {
		if !slices.Contains(inherited, key) {
			t.Errorf("a change of %s does not wake the Machines that wait (F-69)", key)
		}
	}
}
