package set_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
)

// many is how many Machines the benchmark creates.
const many = 1000

// BenchmarkASetMakes1000Machines compares the time in which a set creates 1000 Machines with the time that a client without a controller
// takes in the same run. It reports the ratio of the two times. The target is at most 1.5.
func BenchmarkASetMakes1000Machines(b *testing.B) {
	cluster := kube.ForTest(b, kube.Options{})
	c := direct(b, cluster)
	if err := deploy.Apply(b.Context(), c, "crds"); err != nil {
		b.Fatal(err)
	}
	run(b, cluster)
	bareCreates(b, c, "cold")
	var bare, took time.Duration
	for n := 0; b.Loop(); n++ {
		bare += bareCreates(b, c, fmt.Sprint("bare", n))
		name := fmt.Sprint("set", n)
		began := time.Now()
		if err := c.Create(b.Context(), newSet(name, many)); err != nil {
			b.Fatal(err)
		}
		await(b, c, name, many)
		took += lastCreate(b, cluster).Sub(began)
	}
	b.ReportMetric(took.Seconds()/bare.Seconds(), "x-bare-client")
	b.ReportMetric(bare.Seconds()/float64(b.N), "s-bare")
	b.ReportMetric(took.Seconds()/float64(b.N), "s-set")
}

// bareCreates creates as many Machines as the set does, with as many parallel calls, but without a controller. It returns how long this
// takes.
func bareCreates(t testing.TB, c client.Client, prefix string) time.Duration {
	t.Helper()
	began := time.Now()
	slots := make(chan struct{}, 64)
	var all sync.WaitGroup
	for i := range many {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", i), Namespace: "default", Finalizers: []string{v1alpha1.FinalizerServer},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody", Controller: new(bool)}}}}
			m.Spec = newSet("x", 1).Spec.Template.Spec
			if err := c.Create(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// lastCreate returns when the set's last Machine was created.
func lastCreate(t testing.TB, cluster *kube.Cluster) (at time.Time) {
	t.Helper()
	requests, err := cluster.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "machines" && r.Wrote() && strings.Contains(r.URI, set.FieldManager) && r.At.After(at) {
			at = r.At
		}
	}
	return at
}
