package machine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestSpecFieldsThatHaveNoEffectAreShown(t *testing.T) {
	t.Run("condition Warnings names the spec fields that have no effect, even after the Node has joined (F-55)", func(t *testing.T) {
		b := joined(t, func(m *v1alpha1.Machine) {
			m.Spec.ConfigSource = &corev1.NodeConfigSource{}
			m.Spec.Versions.ControlPlane = "1.37.1"
		})
		b.pass()
		c := find(b.read(), v1alpha1.ConditionWarnings)
		if want := "spec.configSource: has no effect; it may be removed; spec.versions.controlPlane: has no effect; it may be removed"; c.Message != want {
			t.Errorf("%+v", c)
		}
	})
}
