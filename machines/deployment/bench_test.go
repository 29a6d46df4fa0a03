package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// BenchmarkWritesDuringARollout counts how many writes to sets and deployments the controllers make per Machine of a rollout. The target is
// at most 2. The surge is the usual 10 %: with a smaller surge, a step moves fewer Machines for the same number of writes.
func BenchmarkWritesDuringARollout(b *testing.B) {
	for _, surge := range []string{"10%", "25%"} {
		b.Run("of 500 Machines with maxSurge "+surge, func(b *testing.B) { benchmarkRolling(b, 500, intstr.Parse(surge)) })
	}
	b.Run("of 50 Machines with maxSurge 1", func(b *testing.B) { benchmarkRolling(b, 50, intstr.FromInt32(1)) })
}

func benchmarkRolling(b *testing.B, n int32, surge intstr.IntOrString) {
	h := newHarness(b)
	h.patience = 10 * time.Minute
	d := group("counted", size(n))
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: &surge}}
	h.create(d)
	h.settled("counted", n)
	writes, rolls := 0, 0
	for b.Loop() {
		before := h.counted()
		rolls++
		h.patch("counted", fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.%d"}}}}}`, 100+rolls))
		h.eventually("the rollout to begin", func() (string, bool) {
			st := h.get("counted").Status
			return fmt.Sprintf("%+v", st), st.UpdatedReplicas < n || st.Replicas > n
		})
		h.settled("counted", n)
		writes += h.counted()["owners"] - before["owners"]
	}
	b.ReportMetric(float64(writes)/float64(rolls)/float64(n), "writes/machine")
	b.ReportMetric(b.Elapsed().Seconds()/float64(rolls), "s/roll")
}
