package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsCountedOfAPackage(t *testing.T) {
	h, err := load([]string{"./testdata/house"})
	if err != nil {
		t.Fatal(err)
	}
	if len(h.rooms) != 1 {
		t.Fatalf("got %d packages, want 1", len(h.rooms))
	}
	r := h.rooms[0]
	// 2 for the package and its import, 4 for Door, 1 for inner, 3 for Text, 4 for turn, 5 for Turn, and 1 each for Close and swap.
	if r.code != 21 {
		t.Errorf("got %d lines of code, want 21: comments, blank lines and generated files do not count, and each line of a raw string does", r.code)
	}
	if r.exported != 4 {
		t.Errorf("got %d exported names, want Door, Text, Turn and Close", r.exported)
	}
	if r.mutexes != 1 {
		t.Errorf("got %d mutexes, want that of Door", r.mutexes)
	}
	if name, n := r.mostMethods(); name != "Door" || n != 3 {
		t.Errorf("got %d methods of %s, want 3 of Door", n, name)
	}
	if diff := cmp.Diff([]string{"Door.Turn → turn"}, r.forwarders); diff != "" {
		t.Errorf("functions that only pass their parameters on, all and in order (-want +got):\n%s", diff)
	}
	if longest := r.functions.longest(); longest.name != "Door.Turn" || longest.lines != 3 {
		t.Errorf("got %s with %d lines as the longest function, want Door.Turn with 3", longest.name, longest.lines)
	}
}

func TestThePackagesThatImportAPackageAreItsUsers(t *testing.T) {
	h, err := load([]string{"../../version", "../../machines/fault", "../../machines/cloud"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range h.rooms {
		if r.name == "machines/fault" {
			if diff := cmp.Diff([]string{"machines/cloud"}, r.users); diff != "" {
				t.Errorf("users among the packages that were loaded (-want +got):\n%s", diff)
			}
		}
	}
}

func TestAPackageStaysWithinItsBudget(t *testing.T) {
	h := &house{rooms: []*room{{name: "machines/set", code: 100, methods: map[string]int{"Reconciler": 10, "key": 2}}}}
	for name, test := range map[string]struct {
		budgets map[string]budget
		want    string
	}{
		"a package within its budget":                          {map[string]budget{"machines/set": {100, 10}}, ""},
		"a package with more code than its budget":             {map[string]budget{"machines/set": {99, 10}}, "machines/set has 100 lines of code, and its budget is 99"},
		"a type with more methods than the budget":             {map[string]budget{"machines/set": {100, 9}}, "machines/set.Reconciler has 10 methods"},
		"a package without a budget":                           {map[string]budget{}, "machines/set has 100 lines of code, 10 methods of Reconciler, and no budget"},
		"a budget of a package that does not exist (any more)": {map[string]budget{"machines/set": {100, 10}, "machines/gone": {1, 1}}, "the budget of machines/gone has no package"},
	} {
		t.Run(name, func(t *testing.T) {
			err := h.check(test.budgets, true)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTheFileOfBudgets(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want map[string]budget
		err  string
	}{
		"a comment, a budget, and one that was raised": {"# comment\na/b\t10\t3\nc\t20\t4\twhat the lines are for\n", map[string]budget{"a/b": {10, 3}, "c": {20, 4}}, ""},
		"a line without a number":                      {"a\t10\n", nil, ":1: want a package"},
		"two budgets of one package":                   {"a\t10\t1\na\t11\t1\n", nil, ":2: the package a has two budgets"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "budgets.tsv")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readBudgets(file)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Fatalf("got the error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(budget{})); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
		})
	}
}
