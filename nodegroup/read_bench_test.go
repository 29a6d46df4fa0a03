package nodegroup

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func BenchmarkReads(b *testing.B) {
	w := pools.Large(15_000, 500)
	bench := newBench(b, w)
	ours, foreign := pools.Asked(w.Nodes[7000]), membership.Node{Name: "x", ProviderID: "aws:///eu-1/i-1"}
	id := membership.ID(pools.Namespace, "pool-250")
	b.Run("ForNode returns the group of a node", func(b *testing.B) {
		for b.Loop() {
			bench.groups.ForNode(ours)
		}
	})
	b.Run("ForNode returns no group for a node without a group", func(b *testing.B) {
		for b.Loop() {
			bench.groups.ForNode(foreign)
		}
	})
	b.Run("TargetSize returns the size of a group", func(b *testing.B) {
		for b.Loop() {
			_, _ = bench.groups.TargetSize(id)
		}
	})
	b.Run("Instances returns the instances of a group", func(b *testing.B) {
		for b.Loop() {
			_, _ = bench.groups.Instances(id)
		}
	})
}

// BenchmarkForNode_CAPI_1_CAPI_2 calls ForNode for every node, and for as many foreign nodes. 99 of 100 calls must take less
// than a millisecond, and none may call the API server.
func BenchmarkForNode_CAPI_1_CAPI_2(b *testing.B) {
	w := pools.Large(5000, 100)
	bench := newBench(b, w)
	for name, asks := range map[string]func(i int) membership.Node{
		"ours": func(i int) membership.Node { return pools.Asked(w.Nodes[i]) },
		"foreign": func(i int) membership.Node {
			return membership.Node{Name: fmt.Sprint("control-", i), ProviderID: fmt.Sprint("aws:///i-", i)}
		},
	} {
		b.Run(name, func(b *testing.B) {
			gets, lists := bench.gets.Load(), bench.lists.Load()
			var times []time.Duration
			for b.Loop() {
				times = times[:0]
				for i := range w.Nodes {
					n := asks(i)
					began := time.Now()
					bench.groups.ForNode(n)
					times = append(times, time.Since(began))
				}
			}
			if bench.gets.Load() != gets || bench.lists.Load() != lists {
				b.Error("the API server was asked")
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
		})
	}
}

// BenchmarkRefresh_CA_C16 measures a Refresh when nothing has changed.
func BenchmarkRefresh_CA_C16(b *testing.B) {
	bench := newBench(b, pools.Large(15_000, 500))
	for b.Loop() {
		if err := bench.groups.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
