package deployment

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// updating returns the stored status of a deployment in the middle of a rollout.
func updating() v1alpha1.MachineDeploymentStatus {
	return v1alpha1.MachineDeploymentStatus{
		ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, LastReplicas: new(int32(3)),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: rollout.ReasonUpdating, Message: "1 of 3"}},
	}
}

func TestOnlyUrgentChangesOfADeploymentsStatusAreWrittenAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.MachineDeploymentStatus)
		urgent bool
	}{
		{"delays the write of changed numbers of Machines", func(st *v1alpha1.MachineDeploymentStatus) {
			st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas = 4, 2, 3, 3, 1
		}, false},
		{"delays the write of changed messages and times of conditions", func(st *v1alpha1.MachineDeploymentStatus) {
			st.Conditions[0].Message, st.Conditions[0].LastTransitionTime = "2 of 3", metav1.NewTime(time.Unix(1, 0))
		}, false},
		{"writes the end of a rollout at once", func(st *v1alpha1.MachineDeploymentStatus) { st.Conditions[0].Reason = rollout.ReasonComplete }, true},
		{"writes at once that a rollout has stopped", func(st *v1alpha1.MachineDeploymentStatus) { st.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"writes a new condition at once", func(st *v1alpha1.MachineDeploymentStatus) {
			st.Conditions = append(st.Conditions, metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue})
		}, true},
		{"writes the observed generation at once", func(st *v1alpha1.MachineDeploymentStatus) { st.ObservedGeneration = 3 }, true},
		{"writes lastReplicas at once, because a removed spec.replicas is restored from lastReplicas", func(st *v1alpha1.MachineDeploymentStatus) { st.LastReplicas = new(int32(4)) }, true},
		{"writes the collision count at once, because the next set's name depends on it", func(st *v1alpha1.MachineDeploymentStatus) { st.CollisionCount = new(int32(1)) }, true},
		{"does not write the status when only fields of other controllers have changed", func(st *v1alpha1.MachineDeploymentStatus) {
			st.JoinOutcomes, st.RecentJoins = []v1alpha1.JoinOutcome{v1alpha1.JoinFailed}, "f"
			st.HealthReplacements = []v1alpha1.HealthReplacement{{Name: "a"}}
		}, false},
	} {
		t.Run("drover "+tt.name+" (F-57)", func(t *testing.T) {
			now := updating()
			tt.change(&now)
			if got := urgent(updating(), now); got != tt.urgent {
				t.Errorf("urgent() = %v, want %v", got, tt.urgent)
			}
		})
	}
}
