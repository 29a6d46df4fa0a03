package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATestFileMustHaveTheNameOfTheFileThatItTests(t *testing.T) {
	files := map[string]string{"p/doc.go": "package p\n", "p/a.go": "package p\n", "p/b.yaml": "", "p/c/c.go": "package c\n", "q/doc.go": "package q\n"}
	for name, want := range map[string]string{
		"p/a_test.go":                "accepted next to p/a.go",
		"p/a_bench_test.go":          "accepted next to p/a.go",
		"p/a_linux_test.go":          "accepted next to p/a.go",
		"p/b_test.go":                "accepted next to p/b.yaml",
		"p/c_test.go":                "accepted next to the folder p/c",
		"p/p_test.go":                "accepted, because it has the name of the package",
		"p/harness_test.go":          "accepted as a helper of tests",
		"p/main_test.go":             "accepted as the file of TestMain",
		"p/scenario_restart_test.go": "accepted as a scenario",
		"p/restart_test.go":          "refused, because it tests no file",
		"p/a_restart_test.go":        "refused, because it tests no file",
		"q/restart_test.go":          "accepted, because the package has only tests",
	} {
		t.Run("the test file "+name+" is "+want, func(t *testing.T) {
			all := repository(files)
			all[name] = all["p/a.go"]
			if good, got := strings.HasPrefix(want, "accepted"), misnamed(all, name) == ""; got != good {
				t.Errorf("name is good: got %v, want %v", got, good)
			}
		})
	}
}

func TestSourceFilesWithoutATestFileAreFound(t *testing.T) {
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
