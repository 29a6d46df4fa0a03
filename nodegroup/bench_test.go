package nodegroup

import (
	"fmt"
	"testing"
)

// large is a cluster of that many nodes in that many groups.
func large(nodes, groups int) *world {
	w := newWorld()
	for g := range groups {
		p := w.pool(fmt.Sprintf("pool-%03d", g), int32(nodes/groups), 0, int32(nodes))
		for i := range nodes / groups {
			p.node(fmt.Sprintf("pool-%03d-%05d", g, i))
		}
	}
	return w
}

func BenchmarkBuild(b *testing.B) {
	w := large(15_000, 500)
	for b.Loop() {
		Build(w.Objects)
	}
}

func BenchmarkOwnWrite(b *testing.B) {
	w := large(15_000, 500)
	s := Build(w.Objects)
	for b.Loop() {
		s.with(w.Deployments[0])
	}
}

func BenchmarkReads(b *testing.B) {
	w := large(15_000, 500)
	bench := newBench(b, w)
	ours, foreign := asked(w.Nodes[7000]), Node{Name: "x", ProviderID: "aws:///eu-1/i-1"}
	id := ID(namespace, "pool-250")
	b.Run("ForNode", func(b *testing.B) {
		for b.Loop() {
			bench.groups.ForNode(ours)
		}
	})
	b.Run("ForNode of a foreign node", func(b *testing.B) {
		for b.Loop() {
			bench.groups.ForNode(foreign)
		}
	})
	b.Run("TargetSize", func(b *testing.B) {
		for b.Loop() {
			_, _ = bench.groups.TargetSize(id)
		}
	})
	b.Run("Instances", func(b *testing.B) {
		for b.Loop() {
			_, _ = bench.groups.Instances(id)
		}
	})
}
