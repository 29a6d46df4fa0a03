package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheErrorOfTheParserNamesEveryInvalidLineOfTheTableOfReports(t *testing.T) {
	line := func(fields ...string) string { return strings.Join(fields, "\t") + "\n" }
	_, err := parseReports(reportsHeader + "\n" +
		line("1", "a/b#1", "w", "r", holdsRead, "k", "TestA") +
		line("3", "a/b#2", "w", "r", holdsRead, "k", "TestA") +
		line("3", "a/b#1", "w", "r", holdsRead, "k", "TestA") +
		line("4", "a/b", "w", "r", holdsRead, "k", "TestA") +
		line("5", "a/b#5", "w", "r", "good", "k", "TestA") +
		line("6", "a/b#6", "w", "r", failedMended, "k", "") +
		line("7", "a/b#7", "w", "r", doesNotApply, "k", "") +
		line("8", "a/b#8", "w"))
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{
		`line 3: the number is "3", want 2`, "line 4: a/b#1 is there twice", `line 5: "a/b" is not a source`, `line 6: "good" is not a verdict`,
		"line 7: a/b#6 is failed-mended without a test", "line 9: 3 columns",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 8") {
		t.Errorf("a report that is not applicable needs no test:\n%v", err)
	}
}

func TestTheTestsAndFunctionsThatReportsNameMustExist(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"a_test.go": "package p\n\nfunc TestA(t *testing.T) {}\n", "a.go": "package p\n\nfunc (x *y) do() {}\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkProof(root, []report{{source: "a/b#1", proof: []string{"TestA", "a.go:do"}}}); err != nil {
		t.Errorf("both exist: %v", err)
	}
	for _, missing := range []string{"TestB", "a.go:go", "b.go:do", "Test"} {
		if err := checkProof(root, []report{{source: "a/b#1", proof: []string{missing}}}); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: the error is %v", missing, err)
		}
	}
}

func TestAReportIsTriedOnlyWithASubtestOfItsNumber(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a_test.go"), []byte("func TestA(t *testing.T) {\n\tt.Run(\"it waits (report 7, report 12)\", nil)\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		number  int
		verdict string
		wrong   bool
	}{
		{7, holdsTried, false}, {12, holdsTried, false}, {1, holdsTried, true}, {2, holdsTried, true}, {7, holdsRead, true}, {1, holdsRead, false}, {1, failedMended, false}, {7, failedMended, false},
	} {
		err := checkProof(root, []report{{number: tt.number, source: "a/b#1", verdict: tt.verdict, proof: []string{"TestA"}}})
		if (err != nil) != tt.wrong {
			t.Errorf("report %d, %s: the error is %v", tt.number, tt.verdict, err)
		}
	}
}

func TestThePageCountsTheReportsOfEachBlockAndEachKind(t *testing.T) {
	var reports []report
	for range 25 {
		reports = append(reports, report{source: "a/b#1", verdict: holdsRead, kind: "common"})
	}
	reports[3].verdict, reports[4].verdict, reports[22].verdict, reports[24].verdict = failedMended, holdsTried, failedOpen, doesNotApply
	reports[22].kind = "rare"
	page := renderReports(reports)
	for _, want := range []string{
		"Of 24 reports, 3 have a test that was made for them, and 21 were only read.",
		"| 1 to 20 | 20 | 1 | 18 | 1 | 0 |", "| 21 to 24 | 4 | 0 | 3 | 0 | 1 |", "| all | 24 | 1 | 21 | 1 | 1 |",
		"| common | 23 | 1 | 21 | 1 | 0 |\n| rare | 1 | 0 | 0 | 0 | 1 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks\n%s\nin\n%s", want, page)
		}
	}
}
