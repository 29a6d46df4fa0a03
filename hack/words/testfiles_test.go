package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTestFilesHaveTheNameOfWhatTheyTest(t *testing.T) {
	files := map[string]string{"p/doc.go": "package p\n", "p/a.go": "package p\n", "p/b.yaml": "", "p/c/c.go": "package c\n", "q/doc.go": "package q\n"}
	for name, good := range map[string]bool{
		"p/a_test.go":                true,
		"p/a_bench_test.go":          true,
		"p/a_linux_test.go":          true,
		"p/b_test.go":                true,
		"p/c_test.go":                true,
		"p/p_test.go":                true,
		"p/harness_test.go":          true,
		"p/main_test.go":             true,
		"p/scenario_restart_test.go": true,
		"p/restart_test.go":          false,
		"p/a_restart_test.go":        false,
		"q/restart_test.go":          true,
	} {
		t.Run(name, func(t *testing.T) {
			all := repository(files)
			all[name] = all["p/a.go"]
			if got := misnamed(all, name) == ""; got != good {
				t.Errorf("name is good: got %v, want %v", got, good)
			}
		})
	}
}

func TestSourceFilesWithoutATestFile(t *testing.T) {
	all := repository(map[string]string{
		"a.go": "package a\n\nfunc a() {}\n", "a_test.go": "package a\n",
		"b.go": "package a\n\nfunc b() {}\n", "c.go": "package a\n\nconst c = 1\n",
	})
	names, err := filesOf(all, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b.go"}, untested(all, names)); diff != "" {
		t.Errorf("untested (-want +got):\n%s", diff)
	}
}
