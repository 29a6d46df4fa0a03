package rollout

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhetherAMachineIsReady(t *testing.T) {
	since := time.Unix(1000, 0)
	is := func(status corev1.ConditionStatus) v1alpha1.MachineCondition {
		return v1alpha1.MachineCondition{Type: v1alpha1.ConditionReady, Status: status, Reason: "drover", LastTransitionTime: ptr.To(metav1.NewTime(since))}
	}
	appended := v1alpha1.MachineCondition{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}
	for name, tt := range map[string]struct {
		conditions []v1alpha1.MachineCondition
		ready      bool
		since      time.Time
	}{
		"a Machine without the condition Ready is not Ready":                                                                                 {nil, false, time.Time{}},
		"a Machine is Ready since its condition Ready became True":                                                                           {[]v1alpha1.MachineCondition{is(corev1.ConditionTrue)}, true, since},
		"a Machine with only machine-controller's condition Ready is Ready since an unknown time":                                            {[]v1alpha1.MachineCondition{appended}, true, time.Time{}},
		"a Machine whose condition Ready is False is not Ready, even when machine-controller has appended a second one that is True (F-104)": {[]v1alpha1.MachineCondition{is(corev1.ConditionFalse), appended}, false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Machine{Status: v1alpha1.MachineStatus{Conditions: tt.conditions}}
			if at, ready := ReadySince(m); ready != tt.ready || !at.Equal(tt.since) {
				t.Errorf("ReadySince() = %s, %t; want %s, %t", at, ready, tt.since, tt.ready)
			}
			if got := slimMachine(m); len(got.Status.Conditions) > 0 && got.Status.Conditions[0].Status != tt.conditions[0].Status {
				t.Errorf("the record of the Machine has %+v, want the first condition", got.Status.Conditions)
			}
		})
	}
}
