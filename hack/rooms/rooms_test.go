package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheLargestCycleOfFilesThatUseEachOther(t *testing.T) {
	uses := func(pairs ...string) map[string]map[string]bool {
		edges := map[string]map[string]bool{}
		for _, p := range pairs {
			from, to := p[:1], p[1:]
			for _, file := range []string{from, to} {
				if edges[file] == nil {
					edges[file] = map[string]bool{}
				}
			}
			edges[from][to] = true
		}
		return edges
	}
	for name, test := range map[string]struct {
		edges map[string]map[string]bool
		want  []string
	}{
		"a package without files has no cycle":                             {uses(), nil},
		"files that use others without being used by them are not a cycle": {uses("ab", "bc", "ac"), nil},
		"two files that use each other are a cycle":                        {uses("ab", "ba", "bc"), []string{"a", "b"}},
		"three files that use each other in a ring are a cycle":            {uses("ab", "bc", "ca", "cd"), []string{"a", "b", "c"}},
		"the larger of two cycles is returned":                             {uses("ab", "ba", "cd", "de", "ec", "bc"), []string{"c", "d", "e"}},
		"two cycles that share a file count as one cycle":                  {uses("ab", "ba", "bc", "cb"), []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, largestCircle(test.edges)); diff != "" {
				t.Errorf("largestCircle (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadingAPackageFindsItsLongestFunctionAndWhichFilesUseEachOther(t *testing.T) {
	packages, err := load([]string{"./testdata/loop"})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) != 1 {
		t.Fatalf("got %d packages, want 1", len(packages))
	}
	p := packages[0]
	wantEdges := map[string]map[string]bool{"a.go": {"b.go": true}, "b.go": {"a.go": true}, "c.go": {"a.go": true}}
	if diff := cmp.Diff(wantEdges, p.edges); diff != "" {
		t.Errorf("edges by names, fields and methods (-want +got):\n%s", diff)
	}
	if got := p.functions.longest(); got.name != "total" || got.lines != 4 {
		t.Errorf("longest function: got %s with %d lines, want total with 4, its comment not counted", got.name, got.lines)
	}
}
