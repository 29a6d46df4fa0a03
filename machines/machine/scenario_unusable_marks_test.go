package machine_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhatTheAPIServerStoresOnNoNode(t *testing.T) {
	t.Run("is left out and named in the condition Warnings, and the Node gets the rest of its template and starts", func(t *testing.T) {
		b := starting(t, startup)
		m := b.read()
		m.Spec.Metadata.Annotations = map[string]string{"not a key": "x", "Team/name": "a"}
		m.Spec.Metadata.Labels = map[string]string{"too-long": strings.Repeat("x", 64), "tier": "web"}
		m.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "not a value", Effect: corev1.TaintEffectNoSchedule}}
		b.update(m)
		b.registers(corev1.ConditionTrue)
		b.shown()
		b.hasStarted()
		n := b.node()
		if n.Annotations["Team/name"] != "a" || n.Labels["tier"] != "web" {
			t.Errorf("the Node lacks valid values: labels %v, annotations %v", n.Labels, n.Annotations)
		}
		if _, bad := n.Annotations["not a key"]; bad || n.Labels["too-long"] != "" || hasTaint(n, "gpu") {
			t.Errorf("the API server would refuse labels %v, annotations %v, taints %v", n.Labels, n.Annotations, n.Spec.Taints)
		}
		c := find(b.read(), v1alpha1.ConditionWarnings)
		for _, want := range []string{"annotation not a key", "label too-long", "taint gpu:NoSchedule"} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("condition %+v lacks %q", c, want)
			}
		}
	})
}
