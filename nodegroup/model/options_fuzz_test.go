package model

import (
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/pools"
)

// FuzzNoAnnotationOfAGroupMakesASnapshotBreakAnInvariant puts arbitrary text into the annotations of a group: the snapshot must
// break no invariant, durations in the options must be above zero, and nothing may panic.
func FuzzNoAnnotationOfAGroupMakesASnapshotBreakAnInvariant(f *testing.F) {
	f.Add(v1alpha1.AnnotationsMaxSize[0], "5")
	f.Add(v1alpha1.AnnotationsMinSize[1], "99999999999999999999")
	f.Add(v1alpha1.AnnotationOptions+"scaledownunneededtime", "-1h")
	f.Add(v1alpha1.AnnotationOptionsCAPI+"scaledownutilizationthreshold", "+Inf")
	f.Add(v1alpha1.AnnotationOptions+"maxnodeprovisiontime", "2562047h47m16.854775807s")
	f.Add(v1alpha1.AnnotationPaused, "")
	f.Add(v1alpha1.AnnotationRevision, "-\x00")
	f.Fuzz(func(t *testing.T, key, value string) {
		w := pools.NewWorld()
		p := w.Pool("a", 2, 0, 5)
		p.Machine("a-1")
		p.Deployment.Annotations[key], p.Set.Annotations[key] = value, value
		s := build(w, Discovery{BareSets: true})
		if err := soundness(s); err != nil {
			t.Fatal(err)
		}
		o := readOptions(p.Deployment.Annotations).limits(Rules{ZeroOrMax: true, JoinTimeout: 10 * time.Minute})
		got := o.Over(Settings{UnneededTime: 10 * time.Minute, UnreadyTime: 20 * time.Minute, ProvisionTime: 15 * time.Minute})
		if got.UnneededTime <= 0 || got.UnreadyTime <= 0 || got.ProvisionTime < 12*time.Minute || !(got.UtilizationThreshold >= 0 && got.UtilizationThreshold <= 1) {
			t.Fatalf("the options are %+v", got)
		}
	})
}
