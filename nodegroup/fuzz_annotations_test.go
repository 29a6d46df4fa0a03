package nodegroup

import (
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// FuzzAnnotations puts anything into the annotations of a group and into its prices: the snapshot is sound, the options are
// times above zero, and nothing panics.
func FuzzAnnotations(f *testing.F) {
	f.Add(v1alpha1.AnnotationsMaxSize[0], "5", "cpu: 1")
	f.Add(v1alpha1.AnnotationsMinSize[1], "99999999999999999999", "flavors: {a: .inf}")
	f.Add(v1alpha1.AnnotationOptions+"scaledownunneededtime", "-1h", "")
	f.Add(v1alpha1.AnnotationOptionsCAPI+"scaledownutilizationthreshold", "+Inf", "\xff")
	f.Add(v1alpha1.AnnotationOptions+"maxnodeprovisiontime", "2562047h47m16.854775807s", "gpu: 1e999")
	f.Add(v1alpha1.AnnotationPaused, "", "{}")
	f.Add(v1alpha1.AnnotationRevision, "-\x00", "cpu: [")
	f.Fuzz(func(t *testing.T, key, value, prices string) {
		w := newWorld()
		p := w.pool("a", 2, 0, 5)
		p.machine("a-1")
		p.deployment.Annotations[key], p.set.Annotations[key] = value, value
		s := build(w, Discovery{BareSets: true})
		if err := soundness(s); err != nil {
			t.Fatal(err)
		}
		o := readOptions(p.deployment.Annotations).limits(Rules{ZeroOrMax: true, JoinTimeout: 10 * time.Minute})
		got := o.over(flags)
		if got.UnneededTime <= 0 || got.UnreadyTime <= 0 || got.ProvisionTime < 12*time.Minute || !(got.UtilizationThreshold >= 0 && got.UtilizationThreshold <= 1) {
			t.Fatalf("the options are %+v", got)
		}
		if read, err := ReadPrices(prices); err == nil {
			if price := read.hourly(value, resources("1", "1Gi")); !(price > 0) {
				t.Fatalf("a node costs %v", price)
			}
		}
	})
}
