package main

import (
	"maps"
	"slices"
)

// largestCircle returns the largest set of files that reach each other, sorted; empty when there is no cycle. The
// sets are the strongly connected components of the graph (Tarjan's algorithm).
func largestCircle(edges map[string]map[string]bool) []string {
	s := search{edges: edges, index: map[string]int{}, low: map[string]int{}, open: map[string]bool{}}
	for _, file := range slices.Sorted(maps.Keys(edges)) {
		if s.index[file] == 0 {
			s.visit(file)
		}
	}
	if len(s.largest) < 2 {
		return nil
	}
	slices.Sort(s.largest)
	return s.largest
}

type search struct {
	edges      map[string]map[string]bool
	index, low map[string]int
	open       map[string]bool
	stack      []string
	count      int
	largest    []string
}

func (s *search) visit(file string) {
	s.count++
	s.index[file], s.low[file] = s.count, s.count
	s.stack = append(s.stack, file)
	s.open[file] = true
	for to := range s.edges[file] {
		switch {
		case s.index[to] == 0:
			s.visit(to)
			s.low[file] = min(s.low[file], s.low[to])
		case s.open[to]:
			s.low[file] = min(s.low[file], s.index[to])
		}
	}
	if s.low[file] != s.index[file] {
		return
	}
	at := slices.Index(s.stack, file)
	component := slices.Clone(s.stack[at:])
	s.stack = s.stack[:at]
	for _, f := range component {
		s.open[f] = false
	}
	if len(component) > len(s.largest) {
		s.largest = component
	}
}
