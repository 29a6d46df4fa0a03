package verdict

import (
	"testing"
	"time"
)

// BenchmarkJudge measures the search for orphans among the resources of 15000 Machines. Each Machine had a server, a port and a Node, and
// 100 of the Machines do not exist any more.
func BenchmarkJudge(b *testing.B) {
	s := world(15000)
	for n := range 15000 {
		s.Nodes = append(s.Nodes, nodeOfMachine(n))
	}
	s.lose(100)
	for n := range 100 {
		s.end(14_900+n, time.Hour)
	}
	for b.Loop() {
		if v := Judge(s); len(deleted(v)) != 100 {
			b.Fatalf("deletes %v", deleted(v))
		}
	}
}
