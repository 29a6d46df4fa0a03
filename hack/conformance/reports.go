package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The verdicts about a report of another project's users. A report is tried when a test was made for it: the name of a sub-test has the number
// of the report. It is only read when the test or the place in the code that it names was made for something else. A report that is not
// applicable counts as neither.
const (
	holdsTried   = "holds, tried"
	holdsRead    = "holds, read"
	failedMended = "failed-mended"
	failedOpen   = "failed-open"
	doesNotApply = "not-applicable"
)

// report is one line of the table of reports: what a user of another project met, and what drover does there.
type report struct {
	number  int
	source  string // owner/repository#number
	wrong   string // what went wrong there
	right   string // what is right for drover; for a report that is not applicable, the reason
	verdict string
	kind    string   // what other reports of the same kind have in common
	proof   []string // names of tests, and places in the code of the form file:function
}

const reportsHeader = "number\tsource\twhat went wrong\twhat is right for drover\tverdict\tkind\ttest"

var sourceForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[0-9]+$`)

// parseReports parses the reports. Its error names every bad line.
func parseReports(table string) ([]report, error) {
	var (
		reports []report
		errs    []error
		seen    = map[string]bool{}
	)
	header, rest, _ := strings.Cut(table, "\n")
	if header != reportsHeader {
		errs = append(errs, fmt.Errorf("line 1: want the header %q", reportsHeader))
	}
	for n, fields := range rows(rest) {
		r, err := parseReport(fields, len(reports)+1)
		if err == nil && seen[r.source] {
			err = fmt.Errorf("%s is there twice", r.source)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n+1, err))
		}
		seen[r.source] = true
		reports = append(reports, r)
	}
	return reports, errors.Join(errs...)
}

func parseReport(fields []string, number int) (report, error) {
	if len(fields) != 7 {
		return report{}, fmt.Errorf("%d columns, want 7 with tabs between them", len(fields))
	}
	r := report{number: number, source: fields[1], wrong: fields[2], right: fields[3], verdict: fields[4], kind: fields[5]}
	if fields[6] != "" {
		r.proof = strings.Split(fields[6], ", ")
	}
	switch {
	case fields[0] != strconv.Itoa(number):
		return r, fmt.Errorf("the number is %q, want %d", fields[0], number)
	case !sourceForm.MatchString(r.source):
		return r, fmt.Errorf("%q is not a source such as owner/repository#12", r.source)
	case r.wrong == "" || r.right == "" || r.kind == "":
		return r, fmt.Errorf("%s lacks what went wrong, what is right or the kind", r.source)
	case !slices.Contains([]string{holdsTried, holdsRead, failedMended, failedOpen, doesNotApply}, r.verdict):
		return r, fmt.Errorf("%q is not a verdict", r.verdict)
	case r.verdict != failedOpen && r.verdict != doesNotApply && len(r.proof) == 0:
		return r, fmt.Errorf("%s is %s without a test", r.source, r.verdict)
	}
	return r, nil
}

// checkProof returns an error for each test or place in the code that a report names and that the repository below root does not have, and
// for each report whose verdict says otherwise than its tests whether one was made for it.
func checkProof(root string, reports []report) error {
	tests, err := testFiles(os.DirFS(root))
	if err != nil {
		return fmt.Errorf("reading the tests: %w", err)
	}
	var errs []error
	for _, r := range reports {
		switch made := r.hasTest(tests); {
		case made && r.verdict == holdsRead:
			errs = append(errs, fmt.Errorf("%s: %s names a test with a sub-test for report %d, so its verdict is %q", reportsFile, r.source, r.number, holdsTried))
		case !made && r.verdict == holdsTried:
			errs = append(errs, fmt.Errorf("%s: %s is %q, and no test that it names has a sub-test for report %d", reportsFile, r.source, holdsTried, r.number))
		}
		for _, proof := range r.proof {
			file, function, place := strings.Cut(proof, ":")
			if place {
				source, _ := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
				place = regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(function) + `\b`).Match(source)
			}
			if !place && tests[proof] == "" {
				errs = append(errs, fmt.Errorf("%s: %s names %s, which is neither a test nor a function of the form file:function", reportsFile, r.source, proof))
			}
		}
	}
	return errors.Join(errs...)
}

// hasTest reports whether the file of a test that the report names has a sub-test whose name includes the number of the report.
func (r *report) hasTest(tests map[string]string) bool {
	number := regexp.MustCompile(fmt.Sprintf(`[( ]report %d[,)]`, r.number))
	return slices.ContainsFunc(r.proof, func(proof string) bool { return number.MatchString(tests[proof]) })
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testFiles returns the names of all test functions of a repository, each with the text of the files that have such a function.
func testFiles(repository fs.FS) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(repository, name)
		for _, found := range testFunction.FindAllSubmatch(source, -1) {
			files[string(found[1])] += string(source)
		}
		return err
	})
	return files, err
}

// blockSize is the number of reports that the page counts together.
const blockSize = 20

const reportsIntroduction = `
## What users of other projects reported

Reports of public issue threads were compared with drover, one after the other. [reports.tsv](conformance/reports.tsv) has them, each with what
went wrong there, what is right for drover, and the test or the place in the code that shows what drover does. There are two kinds of evidence:

- **Tried**: a test was made for the report. The name of its sub-test has the report's number.
- **Read**: the test or the place in the code was made for something else. Somebody has read it, and judged that it covers the report. That is
  weaker evidence.

A report with which drover failed has a test that was made for it, too. Reports that cannot apply to drover are listed, and not counted.
`

// countsHeader is the header of a table of counts, behind the name of its first column.
const countsHeader = " | all | held, tried | held, read | failed, and mended | failed, and open |\n|---|--:|--:|--:|--:|--:|\n"

// renderReports returns the section about the reports.
func renderReports(reports []report) string {
	var page strings.Builder
	page.WriteString(reportsIntroduction)
	counted := slices.DeleteFunc(slices.Clone(reports), func(r report) bool { return r.verdict == doesNotApply })
	read := 0
	for _, r := range counted {
		if r.verdict == holdsRead {
			read++
		}
	}
	fmt.Fprintf(&page, "Of %d reports, %d have a test that was made for them, and %d were only read. The table has the reports in the order of reports.tsv:\n\n", len(counted), len(counted)-read, read)
	page.WriteString("| reports" + countsHeader)
	first := 1
	for block := range slices.Chunk(counted, blockSize) {
		writeCounts(&page, fmt.Sprintf("%d to %d", first, first+len(block)-1), block)
		first += len(block)
	}
	writeCounts(&page, "all", counted)
	page.WriteString("\nKinds with a failure:\n\n| kind" + countsHeader)
	byKind := map[string][]report{}
	for _, r := range counted {
		byKind[r.kind] = append(byKind[r.kind], r)
	}
	kinds := slices.SortedFunc(maps.Keys(byKind), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byKind[b]), len(byKind[a])), cmp.Compare(a, b))
	})
	for _, kind := range kinds {
		if slices.ContainsFunc(byKind[kind], func(r report) bool { return r.verdict == failedMended || r.verdict == failedOpen }) {
			writeCounts(&page, kind, byKind[kind])
		}
	}
	return page.String()
}

// writeCounts writes a row with the number of reports of each verdict.
func writeCounts(page *strings.Builder, name string, reports []report) {
	count := map[string]int{}
	for _, r := range reports {
		count[r.verdict]++
	}
	fmt.Fprintf(page, "| %s | %d | %d | %d | %d | %d |\n", escape(name), len(reports), count[holdsTried], count[holdsRead], count[failedMended], count[failedOpen])
}
