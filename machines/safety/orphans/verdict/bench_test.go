package verdict

import (
	"testing"
	"time"
)

// BenchmarkJudge judges a cluster of 15000 Machines with a server, a port and a Node each, of which 100 have no Machine.
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
