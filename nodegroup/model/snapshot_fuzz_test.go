package model

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/pools"
)

// allocated returns how many bytes are allocated during a call of the function do.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzASnapshotOfGroupsWithArbitrarySizesKeepsItsInvariantsAndTakesAtMost1MiB puts arbitrary numbers into all fields
// with sizes and bounds. The snapshot must break no invariant, and the memory for it and for its answers must stay below a bound
// that does not depend on the numbers.
func FuzzASnapshotOfGroupsWithArbitrarySizesKeepsItsInvariantsAndTakesAtMost1MiB(f *testing.F) {
	const most = math.MaxInt32
	f.Add(int32(3), int32(0), int32(0), "5", "0", uint8(2))
	f.Add(int32(100_000), int32(most), int32(0), "100000", "100000", uint8(0))
	f.Add(int32(100_001), int32(0), int32(most), "2147483647", "0", uint8(3))
	f.Add(int32(2_000_000_000), int32(-1), int32(-1), "2000000000", "2000000000", uint8(1))
	f.Add(int32(most), int32(most), int32(most), "99999999999999999999", "1e9", uint8(9))
	f.Add(int32(math.MinInt32), int32(math.MinInt32), int32(math.MinInt32), "-1", "", uint8(1))
	f.Fuzz(func(t *testing.T, replicas, last, series int32, high, low string, machines uint8) {
		for _, given := range []*int32{&replicas, nil} {
			w := pools.NewWorld()
			p := w.Pool("a", 0, 0, 0)
			p.Deployment.Spec.Replicas, p.Deployment.Status.LastReplicas, p.Deployment.Spec.PlaceholderSeries = given, &last, &series
			p.Set.Spec.Replicas, p.Set.Spec.PlaceholderSeries = &replicas, &series
			p.Deployment.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: high, v1alpha1.AnnotationsMinSize[0]: low}
			for i := range machines % 16 {
				p.Machine(fmt.Sprintf("a-%d", i))
			}
			bare := p.Revision(2)
			bare.OwnerReferences, bare.Spec.Replicas, bare.Annotations = nil, given, p.Deployment.Annotations
			soundAndSmall(t, w)
		}
	})
}

func soundAndSmall(t *testing.T, w *pools.World) {
	t.Helper()
	var s *Snapshot
	if n := allocated(func() { s = build(w, Discovery{BareSets: true}) }); n > 1<<20 {
		t.Errorf("the snapshot of %d objects took %d bytes", len(w.Objects()), n)
	}
	if err := soundness(s); err != nil {
		t.Fatal(err)
	}
	for id, g := range s.Groups {
		if g.Target < 0 || g.Target > v1alpha1.MaxReplicas || g.Max > v1alpha1.MaxReplicas {
			t.Errorf("group %s has target %d and maximum %d", id, g.Target, g.Max)
		}
		size := 0
		if n := allocated(func() { size = answerSize(g.Shown()) }); n > 16<<20 || size > 4<<20 {
			t.Errorf("the answer for %s took %d bytes and has %d", id, n, size)
		}
	}
}

// answerSize returns the approximate size of a list of instances in protobuf. Apart from the texts, an instance needs about 16
// bytes for tags, lengths, state and error class.
func answerSize(list []Instance) (size int) {
	for _, i := range list {
		size += len(i.ID) + 16
		if i.Error != nil {
			size += len(i.Error.Code) + len(i.Error.Message)
		}
	}
	return size
}

func TestTheMemoryOfASnapshotDoesNotDependOnTheSize(t *testing.T) {
	used := func(replicas int32) uint64 {
		w := pools.NewWorld()
		p := w.Pool("a", replicas, 0, 5)
		p.Machine("a-1")
		// The allocations of Go's maps vary, so the test uses the smallest value of five runs.
		least := uint64(math.MaxUint64)
		for range 5 {
			least = min(least, allocated(func() { build(w, Discovery{}) }))
		}
		return least
	}
	few := used(2)
	for _, replicas := range []int32{1000, 100_000, 2_000_000_000, math.MaxInt32} {
		t.Run(fmt.Sprintf("a snapshot needs the same memory for %d replicas as for 2 (F-29)", replicas), func(t *testing.T) {
			if many := used(replicas); many > few+few/10+4096 {
				t.Errorf("%d bytes, and %d bytes for 2 replicas", many, few)
			}
		})
	}
}

func TestTheListOfInstancesOfAVeryLargeGroupIsLimited(t *testing.T) {
	const limit = 4 << 20
	t.Run("the list for 100,000 replicas and one Machine has as many placeholders as fit into 4 MiB (F-29, CA-C55)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("general-purpose", v1alpha1.MaxReplicas, 0, v1alpha1.MaxReplicas)
		p.Node("general-purpose-1")
		list := snapshotOf(t, w).Groups[p.ID()].Shown()
		if size := answerSize(list); size > limit || len(list) < 45_000 || list[0].State != Running || list[1].ID != pools.UnitID(p, 0, 0) {
			t.Errorf("%d instances with %d bytes, the first %+v", len(list), size, list[:2])
		}
	})
	t.Run("the list for 100,000 Machines has all Machines without a node, and as many nodes as fit into 4 MiB (F-29, CA-C55)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("general-purpose", v1alpha1.MaxReplicas, 0, v1alpha1.MaxReplicas)
		for i := range v1alpha1.MaxReplicas - 10 {
			p.Node(fmt.Sprintf("general-purpose-7d9c6bb8f4-%06d", i))
		}
		for i := range 10 {
			p.Machine(fmt.Sprintf("z-%d", i))
		}
		list := snapshotOf(t, w).Groups[p.ID()].Shown()
		if size := answerSize(list); size > limit || len(list) < 50_000 || list[len(list)-1].ID != pools.MachineID(p, "z-9") {
			t.Errorf("%d instances with %d bytes, the last %+v", len(list), size, list[len(list)-1])
		}
	})
}
