package nodegroup

import (
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// BenchmarkOrders_CA_C59 makes 200 concurrent increases of one group, on a real API server. It compares them with a bare
// client that makes the same number of conditional writes, one after the other. No increase may be lost, and each must be
// one write.
func BenchmarkOrders_CA_C59(b *testing.B) {
	const orders = 200
	s := newSite(b)
	s.pool("ordered", 0)
	key := types.NamespacedName{Namespace: "kube-system", Name: "ordered"}
	read := func() *v1alpha1.MachineDeployment {
		d := &v1alpha1.MachineDeployment{}
		if err := s.client.Get(b.Context(), key, d); err != nil {
			b.Fatal(err)
		}
		return d
	}
	var ofDrover, ofFloor time.Duration
	for b.Loop() {
		before := read()
		began := time.Now()
		var calls sync.WaitGroup
		for range orders {
			calls.Go(func() {
				if err := s.groups.IncreaseSize(b.Context(), membership.ID(key.Namespace, key.Name), 1); err != nil {
					b.Error(err)
				}
			})
		}
		calls.Wait()
		ofDrover += time.Since(began)
		if got := *read().Spec.Replicas - *before.Spec.Replicas; got != orders {
			b.Fatalf("the size rose by %d", got)
		}
		ofFloor += bareWrites(b, s.client, read(), orders)
	}
	b.ReportMetric(float64(orders*b.N)/ofDrover.Seconds(), "orders/s")
	b.ReportMetric(float64(ofDrover)/float64(ofFloor), "ratio")
}

// bareWrites lowers the deployment's size by 1 the given number of times, with one conditional write after the other, and returns
// how long this takes.
func bareWrites(b *testing.B, c client.Client, d *v1alpha1.MachineDeployment, times int) time.Duration {
	began := time.Now()
	for range times {
		before := d.DeepCopy()
		*d.Spec.Replicas--
		if err := c.Patch(b.Context(), d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}
