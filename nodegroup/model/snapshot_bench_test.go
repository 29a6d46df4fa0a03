package model

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// BenchmarkBuild builds the first snapshot of a cluster from all its objects.
func BenchmarkBuild(b *testing.B) {
	each(b, func(b *testing.B, w *pools.World) {
		for b.Loop() {
			build(w, Discovery{})
		}
	})
}

// BenchmarkAfterOneEvent updates the snapshot, and the view from which the autoscaler is answered, after a change of one Machine,
// one Node or one deployment. The limit is 2 ms at 15 000 nodes, whatever the number of groups.
func BenchmarkAfterOneEvent(b *testing.B) {
	each(b, afterOneEvent)
	b.Run("15000 nodes in 1 group during a rollout", func(b *testing.B) {
		w := pools.NewWorld()
		p := w.Pool("rolling", 15_000, 0, 15_000)
		for i := range 11_250 {
			p.Node(fmt.Sprintf("rolling-old-%05d", i))
		}
		p.Set = p.Revision(2)
		for i := range 5000 {
			p.Node(fmt.Sprintf("rolling-new-%05d", i))
		}
		afterOneEvent(b, w)
	})
}

func afterOneEvent(b *testing.B, w *pools.World) {
	s := build(w, Discovery{})
	v := NewView(s, pools.Noon, nil)
	gone := w.Machines[len(w.Machines)/2].DeepCopy()
	pools.Deleting(gone)
	moved := w.Nodes[len(w.Nodes)/3].DeepCopy()
	moved.Labels = map[string]string{v1alpha1.LabelOwnedBy: string(w.Machines[len(w.Machines)/3].UID)}
	for name, e := range map[string]membership.Event{
		"the snapshot is updated after a Machine has changed": {Object: gone}, "the snapshot is updated after a Node has changed": {Object: moved}, "the snapshot is updated after a deployment has changed": {Object: w.Deployments[0]},
		"the snapshot is updated after a Node was deleted": {Object: moved, Gone: true}, "the snapshot is updated after a Machine was deleted": {Object: gone, Gone: true},
	} {
		b.Run(name, func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				next := s.Apply([]membership.Event{e}, pools.Noon)
				if next.flaw != nil {
					b.Fatal(next.flaw)
				}
				v.Over(next)
			}
			b.ReportMetric((processorTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime returns the processor time that this process has used so far on all cores. Unlike the wall clock, it does not
// depend on other load.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// scales are the numbers of nodes and groups for which the benchmarks run.
var scales = []struct{ nodes, groups int }{{1000, 20}, {5000, 100}, {15_000, 500}, {15_000, 1}}

func each(b *testing.B, run func(b *testing.B, w *pools.World)) {
	for _, size := range scales {
		b.Run(fmt.Sprintf("%d nodes in %d groups", size.nodes, size.groups), func(b *testing.B) {
			run(b, pools.Large(size.nodes, size.groups))
		})
	}
}
