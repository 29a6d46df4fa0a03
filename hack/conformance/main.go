// Command conformance writes docs/conformance.md: for every item of the checklists, which tests
// cover it, why it does not apply here, or which issue will cover it. The items are in
// docs/conformance/items.tsv. A test covers an item when the test's name, or the name of one of its
// subtests, contains the item.
//
//	go run ./hack/conformance [-check] [-root folder]
//
// With -check it does not write the page. It fails, and prints the difference, when the page is not
// up to date.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
)

const (
	itemsFile  = "docs/conformance/items.tsv"
	issuesFile = "docs/conformance/issues.tsv"
	// reportsFile has the reports of other projects' users that were tried on drover.
	reportsFile = "docs/conformance/reports.tsv"
	pageFile    = "docs/conformance.md"
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	check := flag.Bool("check", false, "only compare the page with what it should be")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	page, err := generate(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(pageFile))
	if !check {
		return os.WriteFile(path, []byte(page), 0o644)
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(strings.Split(string(committed), "\n"), strings.Split(page, "\n")); diff != "" {
		return fmt.Errorf("%s is stale, run go run ./hack/conformance (-: committed, +: from the tests):\n%s", pageFile, diff)
	}
	return nil
}

// generate reads the checklists and the tests below root, and returns the page.
func generate(root string) (string, error) {
	items, err := readTable(root, itemsFile, parseItems)
	if err != nil {
		return "", err
	}
	issues, err := readTable(root, issuesFile, parseIssues)
	if err != nil {
		return "", err
	}
	reports, err := readTable(root, reportsFile, parseReports)
	if err != nil {
		return "", err
	}
	evidence, err := scan(os.DirFS(root))
	if err != nil {
		return "", fmt.Errorf("reading the tests: %w", err)
	}
	if err := errors.Join(checkIssues(items, issues), checkEvidence(items, evidence), checkProof(root, reports)); err != nil {
		return "", err
	}
	return render(items, issues, evidence) + renderReports(reports), nil
}

func readTable[T any](root, name string, parse func(string) (T, error)) (table T, err error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return table, err
	}
	table, err = parse(string(data))
	if err != nil {
		return table, fmt.Errorf("reading %s: %w", name, err)
	}
	return table, nil
}
