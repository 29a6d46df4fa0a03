package main

import (
	"errors"
	"fmt"
	"strings"
)

// An item that needs no issue has one of these values instead of the number of an issue.
const (
	ruled         = "ruled" // the item does not apply, because another item or a decision takes precedence
	notApplicable = "n/a"
)

// item is one line of a checklist.
type item struct {
	id    string
	place string // the number of the issue that will cover the item, or else ruled or notApplicable
	text  string
	note  string // the reason why the item does not apply, or how drover interprets the item
}

// issue is an issue whose solution will cover items.
type issue struct{ id, name string }

// parseItems parses the items. Its error reports every bad line.
func parseItems(table string) ([]item, error) {
	var (
		items []item
		errs  []error
		seen  = map[string]bool{}
	)
	for n, fields := range rows(table) {
		it, err := parseItem(fields)
		if err == nil && seen[it.id] {
			err = fmt.Errorf("%s is there twice", it.id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		seen[it.id] = true
		items = append(items, it)
	}
	return items, errors.Join(errs...)
}

func parseItem(fields []string) (item, error) {
	if len(fields) < 3 || len(fields) > 4 {
		return item{}, fmt.Errorf("%d columns, want id, place, sentence and perhaps a note, with tabs between them", len(fields))
	}
	it := item{id: fields[0], place: fields[1], text: fields[2]}
	if len(fields) == 4 {
		it.note = fields[3]
	}
	if ids := mentions(it.id); len(ids) != 1 || ids[0] != it.id {
		return item{}, fmt.Errorf("%q is not an id such as CA-C01, MC-2, MCM-22a, CAPI-3 or F-47", it.id)
	}
	if (it.place == ruled || it.place == notApplicable) && it.note == "" {
		return item{}, fmt.Errorf("%s is %s without a reason in the fourth column", it.id, it.place)
	}
	return it, nil
}

func parseIssues(table string) ([]issue, error) {
	var issues []issue
	for n, fields := range rows(table) {
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: %d columns, want the issue and its name, with a tab between them", n, len(fields))
		}
		issues = append(issues, issue{id: fields[0], name: fields[1]})
	}
	return issues, nil
}

// rows yields the number and the columns of each line that is neither empty nor
// a comment.
func rows(table string) func(yield func(int, []string) bool) {
	return func(yield func(int, []string) bool) {
		for n, line := range strings.Split(table, "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if !yield(n+1, strings.Split(line, "\t")) {
				return
			}
		}
	}
}

// checkIssues returns an error for each item whose issue is not in the table of issues.
func checkIssues(items []item, issues []issue) error {
	known := map[string]bool{ruled: true, notApplicable: true}
	for _, i := range issues {
		known[i.id] = true
	}
	var errs []error
	for _, it := range items {
		if !known[it.place] {
			errs = append(errs, fmt.Errorf("%s: %s stands in issue %q, which %s does not list", itemsFile, it.id, it.place, issuesFile))
		}
	}
	return errors.Join(errs...)
}

// checkEvidence returns an error for each test that names an item that no checklist has.
func checkEvidence(items []item, evidence []test) error {
	known := map[string]bool{}
	for _, it := range items {
		known[it.id] = true
	}
	var errs []error
	for _, t := range evidence {
		for _, id := range t.ids {
			if !known[id] {
				errs = append(errs, fmt.Errorf("%s names %s, which %s does not list", t, id, itemsFile))
			}
		}
	}
	return errors.Join(errs...)
}
