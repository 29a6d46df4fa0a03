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
	s.drop(100, false)
	_, m := Judge(s, remembers())
	s.Now = s.Now.Add(time.Hour)
	for b.Loop() {
		if v, _ := Judge(s, m); len(deleted(v)) != 10 {
			b.Fatalf("deletes %v", deleted(v))
		}
	}
}
