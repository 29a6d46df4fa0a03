package main

import (
	"fmt"
	"slices"
	"strings"
)

// lists are the prefixes and titles of the checklists, in the order of the page.
var lists = []struct{ prefix, title string }{
	{"CA-C", "What cluster-autoscaler expects of a provider"},
	{"MC-", "What machine-controller does, kept or bettered"},
	{"MCM-", "What Gardener's machine-controller-manager does"},
	{"CAPI-", "What Cluster API, its OpenStack provider and Karpenter do"},
	{"F-", "Faults that drover had, and must not have again"},
}

// The columns of the summary.
const (
	covered = iota
	ruledOut
	inapplicable
	open
	states
)

const introduction = `<!-- Written by go run ./hack/conformance from docs/conformance/items.tsv and the names of the tests. Do not edit. -->

# Conformance

drover is held to four checklists of what the programs around it expect, and of what its predecessors do well or badly;
and to a fifth, of the faults that were found in drover itself when it was attacked, installed, reviewed and run for real.
An item is *covered* when a test names it; a test may cover an item in part, and the next one the rest. *Ruled* means
that another item or a decision wins, *not applicable* that there is nothing here that the item could apply to. What is
left is *open*, with the issue that brings it.

`

// render returns the page docs/conformance.md.
func render(items []item, issues []issue, evidence []test) string {
	by := map[string][]test{}
	for _, t := range evidence {
		for _, id := range t.ids {
			by[id] = append(by[id], t)
		}
	}
	names := map[string]string{}
	for _, i := range issues {
		names[i.id] = issueName(i)
	}
	var page strings.Builder
	page.WriteString(introduction)
	page.WriteString("| checklist | covered | ruled | not applicable | open | items |\n|---|--:|--:|--:|--:|--:|\n")
	for _, list := range lists {
		count, total := countStates(items, by, list.prefix)
		fmt.Fprintf(&page, "| [%s](#%s) | %d | %d | %d | %d | %d |\n",
			list.title, anchor(list.title), count[covered], count[ruledOut], count[inapplicable], count[open], total)
	}
	for _, list := range lists {
		fmt.Fprintf(&page, "\n## %s\n\n| item | what must hold | where it stands |\n|---|---|---|\n", list.title)
		for _, it := range items {
			if strings.HasPrefix(it.id, list.prefix) {
				fmt.Fprintf(&page, "| %s | %s | %s |\n", it.id, escape(sentence(it, by[it.id])), standing(it, by[it.id], names))
			}
		}
	}
	return page.String()
}

// issueName returns the name of an issue on the page.
func issueName(i issue) string {
	if strings.Trim(i.id, "0123456789") == "" {
		return fmt.Sprintf("issue %s, %s", i.id, i.name)
	}
	return i.id + ", " + i.name
}

func countStates(items []item, by map[string][]test, prefix string) (count [states]int, total int) {
	for _, it := range items {
		if strings.HasPrefix(it.id, prefix) {
			count[state(it, by[it.id])]++
			total++
		}
	}
	return count, total
}

// state returns the column of the summary that counts the item. An item that a test names is covered, whatever its line in the
// checklist states.
func state(it item, tests []test) int {
	switch {
	case len(tests) > 0:
		return covered
	case it.place == ruled:
		return ruledOut
	case it.place == notApplicable:
		return inapplicable
	default:
		return open
	}
}

// sentence returns the item's text and its note. It leaves out a note that the last column of the page shows.
func sentence(it item, tests []test) string {
	if at := state(it, tests); it.note == "" || at == ruledOut || at == inapplicable {
		return it.text
	}
	return it.text + " (" + it.note + ")"
}

func standing(it item, tests []test, issues map[string]string) string {
	switch state(it, tests) {
	case covered:
		return links(tests)
	case ruledOut:
		return "ruled: " + escape(it.note)
	case inapplicable:
		return "not applicable: " + escape(it.note)
	default:
		return "open: " + escape(issues[it.place])
	}
}

// links returns a link to each test with its file, without repetition.
func links(tests []test) string {
	var parts []string
	for _, t := range tests {
		name := t.name
		if name == "" {
			name = "a table"
		}
		parts = append(parts, fmt.Sprintf("[%s](../%s)", name, t.file))
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ", ")
}

// anchor returns the URL fragment that Markdown renderers give to a heading.
func anchor(title string) string {
	keep := func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		default:
			return -1
		}
	}
	return strings.Map(keep, strings.ToLower(title))
}

func escape(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
