package nodegroup

import (
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// priced returns a cluster with the prices in text and one group of flavor m1, which has 2 CPUs and
// 8 GiB.
func priced(t *testing.T, text string) (*bench, *pools.Pool) {
	t.Helper()
	w := pools.NewWorld()
	p := w.Pool("a", 2, 1, 5)
	p.Node("a-1")
	p.Deployment.Status.NodeTemplate = &v1alpha1.NodeTemplate{
		Capacity:    resources("2", "8Gi"),
		Allocatable: resources("2", "8Gi"),
		Labels:      map[string]string{corev1.LabelInstanceTypeStable: "m1"},
	}
	b := newBench(t, w, Options{Prices: types.NamespacedName{Namespace: "drover", Name: "prices"}})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: "prices"}, Data: map[string]string{pricesKey: text}}
	if err := b.client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	b.groups.prices.read(t.Context())
	return b, p
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func podOf(cpu, memory string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: resources(cpu, memory)}}}}}
}

func TestNodeAndPodPrices(t *testing.T) {
	const rates, list = "cpu: 0.1\nmemoryGiB: 0.01\ngpu: 2\n", "flavors:\n  m1: 0.4\n  m2: 3\n"
	template := membership.Node{Name: "template-node-for-x", Annotations: map[string]string{v1alpha1.AnnotationNodeGroup: membership.ID(pools.Namespace, "a")}}
	for _, tc := range []struct {
		name, prices string
		node         membership.Node
		want         float64
	}{
		{"a node whose label names a flavor costs the flavor's price (CA-C107)", list, membership.Node{Labels: map[string]string{corev1.LabelInstanceTypeStable: "m1"}}, 0.4},
		{"when only resources have prices, a template node costs the sum of its resources' prices (CA-C107)", rates, template, 0.28},
		{"when only resources have prices, a node of a group costs the sum for the resources in the group's template (CA-C107)", rates, membership.Node{Name: "a-1", ProviderID: pools.ProviderID("a-1")}, 0.28},
		{"a node of no group and without a flavor label costs as much as the most expensive flavor (CA-C107)", list, membership.Node{Name: "x"}, 3},
		{"when only resources have prices, a node of no group costs as much as 1 CPU and 1 GiB of memory (CA-C107)", rates, membership.Node{Name: "x"}, 0.11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _ := priced(t, tc.prices)
			for hours := range 3 {
				span := time.Duration(hours+1) * time.Hour
				got, err := b.groups.NodePrice(tc.node, pools.Noon, pools.Noon.Add(span))
				if want := tc.want * float64(hours+1); err != nil || math.Abs(got-want) > 1e-9 {
					t.Errorf("%s cost %v, want %v, error %v", span, got, want, err)
				}
			}
		})
	}
	t.Run("when only resources have prices, a pod costs the sum of the prices of the resources that it requests (CA-C107)", func(t *testing.T) {
		b, _ := priced(t, rates)
		got, err := b.groups.PodPrice(podOf("500m", "2Gi"), pools.Noon, pools.Noon.Add(time.Hour))
		if err != nil || math.Abs(got-0.07) > 1e-9 {
			t.Errorf("the pod costs %v, error %v", got, err)
		}
	})
	t.Run("when only flavors have prices, a pod that fills a node costs as much as the node (CA-C107)", func(t *testing.T) {
		b, _ := priced(t, list)
		got, err := b.groups.PodPrice(podOf("2", "8Gi"), pools.Noon, pools.Noon.Add(time.Hour))
		if err != nil || math.Abs(got-0.4) > 1e-9 {
			t.Errorf("the pod costs %v, error %v", got, err)
		}
	})
	t.Run("a pod without resource requests and a node about which nothing is known cost more than zero (CA-C107)", func(t *testing.T) {
		b, _ := priced(t, rates)
		pod, err := b.groups.PodPrice(&corev1.Pod{}, time.Time{}, time.Time{})
		node, other := b.groups.NodePrice(membership.Node{}, pools.Noon, pools.Noon.Add(-time.Hour))
		if pod <= 0 || node <= 0 || err != nil || other != nil {
			t.Errorf("a pod costs %v (%v), a node %v (%v)", pod, err, node, other)
		}
	})
}

func TestMissingAndInvalidPrices(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"a price list in which no price is set is refused":         {"", "there is no price: set flavors, cpu or memoryGiB"},
		"a negative price of a CPU is refused":                     {"cpu: -1", "cpu is -1"},
		"a flavor that costs 0 is refused":                         {"flavors: {m1: 0}", "the flavor m1 costs 0"},
		"a price list with a misspelt key is refused":              {"flavours: {m1: 1}", "flavours"},
		"a price that is not a number is refused":                  {"cpu: .nan", "NaN"},
		"a price list with flavors that have no prices is refused": {"flavors: [m1]", "flavors"},
		"a negative price of memory is refused":                    {"cpu: 1\nmemoryGiB: -2", "memoryGiB is -2"},
	} {
		if _, err := model.ReadPrices(row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, row.want)
		}
	}
	t.Run("when no price list is configured, every call for a price returns Unimplemented (CA-C106)", func(t *testing.T) {
		b := newBench(t, pools.NewWorld())
		_, first := b.groups.NodePrice(membership.Node{}, pools.Noon, pools.Noon)
		_, second := b.groups.PodPrice(&corev1.Pod{}, pools.Noon, pools.Noon)
		wantKind(t, first, model.Unimplemented)
		wantKind(t, second, model.Unimplemented)
	})
	t.Run("the last valid prices stay in use when the ConfigMap gets invalid prices", func(t *testing.T) {
		b, _ := priced(t, "cpu: 1\nmemoryGiB: 1\n")
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: "prices"}, Data: map[string]string{pricesKey: "cpu: x"}}
		if err := b.client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		b.groups.prices.read(t.Context())
		if _, err := b.groups.NodePrice(membership.Node{}, pools.Noon, pools.Noon); err != nil {
			t.Error(err)
		}
	})
}

func TestGPUTypesAreReadFromTheTemplatesOfTheGroups(t *testing.T) {
	w := pools.NewWorld()
	for name, label := range map[string]string{"a": "a100", "b": "h100", "c": "", "d": "a100"} {
		p := w.Pool(name, 1, 0, 2)
		p.Deployment.Status.NodeTemplate = &v1alpha1.NodeTemplate{Labels: map[string]string{"gpu": label}}
	}
	if got := strings.Join(newBench(t, w, Options{GPULabel: "gpu"}).groups.GPUTypes(), " "); got != "a100 h100" {
		t.Errorf("CA-C105 the types are %q", got)
	}
	if got := newBench(t, w).groups.GPUTypes(); len(got) != 0 {
		t.Errorf("CA-C105 without a label the types are %v", got)
	}
}
