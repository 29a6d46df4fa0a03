package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestWhichItemNumbersAreFoundInTestNames(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"an item number at the beginning of a name is found":                                                                        {text: "CA-C56 a delta that is not positive", want: "CA-C56"},
		"an item number in parentheses at the end of a name is found":                                                               {text: "no size below the minimum (MC-35)", want: "MC-35"},
		"all item numbers of a range with an ellipsis are found":                                                                    {text: "MC-10…12 where a field comes from", want: "MC-10 MC-11 MC-12"},
		"all item numbers of a range with three dots are found":                                                                     {text: "MC-10...12 where a field comes from", want: "MC-10 MC-11 MC-12"},
		"an item number after a comma is found although its prefix CA-C is shortened to C":                                          {text: "CA-C65, C66 one node, and ten", want: "CA-C65 CA-C66"},
		"all item numbers of a range, and a further item number after the range, are found":                                         {text: "CA-C65…C67 and CA-C80 removals", want: "CA-C65 CA-C66 CA-C67 CA-C80"},
		"a CA-C item number of one digit is returned with two digits":                                                               {text: "CA-C9 and C10", want: "CA-C09 CA-C10"},
		"item numbers that end with the letter a or b are found":                                                                    {text: "MCM-22a, 22b, MC-1", want: "MCM-22a MCM-22b MC-1"},
		"in the text \"MCM-7 does not hold, 8 does\", 8 is not taken for an item number, because it does not follow MCM-7 directly": {text: "MCM-7 does not hold, 8 does", want: "MCM-7"},
		"in the text \"CA-C56, 3 of them\", 3 is not taken for an item number, because it lacks the prefix C":                       {text: "CA-C56, 3 of them", want: "CA-C56"},
		"item numbers with three different prefixes are found":                                                                      {text: "CAPI-18, MCM-36 and MC-43 a crash", want: "CAPI-18 MCM-36 MC-43"},
		"two item numbers in parentheses are found":                                                                                 {text: "keeps the startup taint (F-47, F-48)", want: "F-47 F-48"},
		"UTF-8 is not taken for an item number":                                                                                     {text: "reads UTF-8", want: ""},
		"text with an unknown prefix, without a number or with an ordinal number is not taken for an item number":                   {text: "neither MCA-1 nor MC-x nor MC-1st nor C1", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(mentions(tt.text), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhichItemNumbersAreFoundInNamesOfTestFunctions(t *testing.T) {
	for name, tt := range map[string]struct {
		want string
		// whyNone is the reason why the function name contains no item number.
		whyNone string
	}{
		"TestCAC56Refuses":         {want: "CA-C56"},
		"TestCA_C5_MC_12":          {want: "CA-C05 MC-12"},
		"TestMCM22aAvailable":      {want: "MCM-22a"},
		"TestCAPI18":               {want: "CAPI-18"},
		"TestStartupTaint_F47":     {want: "F-47"},
		"TestF47":                  {whyNone: "F47 has no underscore before it"},
		"TestTheMC":                {whyNone: "MC has no number"},
		"TestSHA256OfTheMC2bucket": {whyNone: "MC2 is only the beginning of the word MC2bucket"},
	} {
		contains := "the item number " + strings.ReplaceAll(tt.want, " ", " and ")
		if tt.want == "" {
			contains = "no item number, because " + tt.whyNone
		}
		t.Run("the function name "+name+" contains "+contains, func(t *testing.T) {
			if got := strings.Join(nameMentions(name), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

const someTests = `package p

import "testing"

// MC-99 in a comment covers nothing.
func TestOne(t *testing.T) {
	t.Run("MC-1 alone", func(t *testing.T) { t.Errorf("MC-98 in a complaint: %d", 1) })
	for _, c := range []struct{ name string }{{"MC-2, 3 in a table"}, {"MC-2 again"}} {
		_ = c
	}
}

var table = map[string]int{"CA-C56 in a key": 1}

func TestMCM4InItsOwnName(t *testing.T) {}

func TestNothing(t *testing.T) { _ = 'c' }
`

func TestTheScanFindsTheTestsWhoseNamesContainItemNumbers(t *testing.T) {
	tests, err := scan(fstest.MapFS{
		"a/one_test.go":                        {Data: []byte(someTests)},
		"a/one.go":                             {Data: []byte("package p\n\nconst c = `MC-9`\n")},
		"a/testdata/two_test.go":               {Data: []byte("no Go")},
		".hidden/three_test.go":                {Data: []byte("no Go")},
		"hack/conformance/conformance_test.go": {Data: []byte("no Go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []test{
		{"a/one_test.go", "TestOne", []string{"MC-1", "MC-2", "MC-3"}},
		{"a/one_test.go", "", []string{"CA-C56"}},
		{"a/one_test.go", "TestMCM4InItsOwnName", []string{"MCM-4"}},
	}
	if diff := cmp.Diff(want, tests, cmp.AllowUnexported(test{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheErrorOfTheScanNamesAnInvalidGoFile(t *testing.T) {
	_, err := scan(fstest.MapFS{"bad_test.go": {Data: []byte("no Go")}})
	if err == nil || !strings.Contains(err.Error(), "bad_test.go") {
		t.Errorf("the error is %v, want one that names the file", err)
	}
}

func TestTheErrorOfTheParserNamesEveryInvalidLineOfTheTableOfItems(t *testing.T) {
	_, err := parseItems("# a comment\nMC-1\t4\tgood\nMC-2\t4\nMC-1\t4\ttwice\nMC-03\t4\tzero\nMC-4\truled\tno reason\n")
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{
		"line 3: 2 columns", "line 4: MC-1 is there twice", `line 5: "MC-03" is not an id`, "line 6: MC-4 is ruled without a reason",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestItemNumbersInTestNamesAndIssuesOfItemsMustBeListedInTheConformanceTables(t *testing.T) {
	err := checkEvidence([]item{{id: "MC-1"}}, []test{{"a_test.go", "TestA", []string{"MC-1", "MC-77"}}})
	if err == nil || err.Error() != "a_test.go TestA names MC-77, which docs/conformance/items.tsv does not list" {
		t.Errorf("the error is %v", err)
	}
	err = checkIssues([]item{{id: "MC-1", place: "99"}}, nil)
	if err == nil || !strings.Contains(err.Error(), `MC-1 stands in issue "99"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestTheConformancePageListsEveryItem(t *testing.T) {
	page := render(
		[]item{
			{"MC-1", "4", "One holds", "as read here"}, {"MC-2", "4", "Two holds", ""}, {"MC-3", ruled, "Three | holds", "MC-1 wins"},
			{"MC-4", notApplicable, "Four holds", "there is none"}, {"MC-5", "later", "Five holds", ""}, {"MC-6", ruled, "Six holds", "in another way"},
		},
		[]issue{{"4", "the Machine"}, {"later", "the rest"}},
		[]test{{"a_test.go", "TestA", []string{"MC-1", "MC-6"}}, {"b/b_test.go", "", []string{"MC-1"}}, {"b/b_test.go", "", []string{"MC-1"}}},
	)
	for _, want := range []string{
		"| MC-1 | One holds (as read here) | [TestA](../a_test.go), [a table](../b/b_test.go) |",
		"| MC-2 | Two holds | open: issue 4, the Machine |",
		`| MC-3 | Three \| holds | ruled: MC-1 wins |`,
		"| MC-4 | Four holds | not applicable: there is none |",
		"| MC-5 | Five holds | open: later, the rest |",
		"| MC-6 | Six holds (in another way) | [TestA](../a_test.go) |",
		"| [What machine-controller does, kept or bettered](#what-machine-controller-does-kept-or-bettered) | 2 | 1 | 1 | 2 | 6 |",
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the page lacks\n%s", want)
		}
	}
}

func TestTheConformanceCheckFailsAndShowsTheDifferenceWhenThePageLacksANewTest(t *testing.T) {
	root := t.TempDir()
	for name, data := range map[string]string{
		itemsFile: "MC-1\t4\tOne holds\n", reportsFile: reportsHeader + "\n", issuesFile: "4\tthe Machine\n", "a_test.go": "package p\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("a fresh page: %v", err)
	}
	covering := "package p\n\nvar name = \"MC-1 is covered\"\n"
	if err := os.WriteFile(filepath.Join(root, "a_test.go"), []byte(covering), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(root, true)
	if err == nil || !strings.Contains(err.Error(), "is stale") || !strings.Contains(err.Error(), "[a table](../a_test.go)") {
		t.Errorf("the error is %v, want the difference", err)
	}
}

func TestTheTableOfItemsHasTheExpectedNumberOfItemsForEachPrefix(t *testing.T) {
	items, err := readTable(filepath.Join("..", ".."), itemsFile, parseItems)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, it := range items {
		for _, list := range lists {
			if strings.HasPrefix(it.id, list.prefix) {
				count[list.prefix]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"CA-C": 115, "MC-": 80, "MCM-": 115, "CAPI-": 60, "F-": 153}, count); diff != "" {
		t.Error(diff)
	}
}
