package model

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzANodeCostsMoreThanZeroWithEveryValidPriceList parses arbitrary text as prices: if it can be parsed, every node must have a
// price above 0, and nothing may panic.
func FuzzANodeCostsMoreThanZeroWithEveryValidPriceList(f *testing.F) {
	for _, text := range []string{"cpu: 1", "flavors: {a: .inf}", "", "\xff", "gpu: 1e999", "{}", "cpu: ["} {
		f.Add("a", text)
	}
	f.Fuzz(func(t *testing.T, flavor, text string) {
		prices, err := ReadPrices(text)
		if err != nil {
			return
		}
		resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		if price := prices.hourly(flavor, resources); !(price > 0) {
			t.Fatalf("a node costs %v, want more than 0", price)
		}
	})
}
