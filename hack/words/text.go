package main

import (
	"slices"
	"strings"
)

// finding is a place where something is to be written differently.
type finding struct {
	file    string // with slashes, from the repository's folder
	line    int
	found   string
	instead string // what to write
	advice  bool
	edit    edit // what -fix does; the zero value: it needs a writer
}

// text is a passage of a file: a comment, a paragraph of a document or a string literal.
type text struct {
	body  string // in one line: line breaks are spaces
	line  int    // of its beginning, from 1
	ends  []int  // the offsets in body at which a further line begins
	prose bool   // a comment or a paragraph, not a string literal
}

// joined returns the text of lines that stand below each other from a first line on.
func joined(lines []string, first int) text {
	t := text{line: first, prose: true}
	var body strings.Builder
	for n, line := range lines {
		if n > 0 {
			body.WriteByte(' ')
			t.ends = append(t.ends, body.Len())
		}
		body.WriteString(strings.TrimSpace(line))
	}
	t.body = body.String()
	return t
}

// lineAt returns the line of the file in which the byte at an offset of the text stands.
func (t text) lineAt(offset int) int {
	line := t.line
	for _, begin := range t.ends {
		if begin > offset {
			break
		}
		line++
	}
	return line
}

// findings returns the uses of the rules' words in the text; file is not set.
func (t text) findings() []finding {
	var found []finding
	for _, r := range rules {
		if r.prose && !t.prose {
			continue
		}
		for _, at := range r.word.FindAllStringIndex(t.body, -1) {
			if !r.allows(t.body[:at[0]], t.body[at[1]:]) {
				word := strings.Trim(t.body[at[0]:at[1]], " .!:,;)")
				found = append(found, finding{line: t.lineAt(at[1] - 1), found: word, instead: r.instead, advice: r.advice})
			}
		}
	}
	return found
}

// allows reports whether a use of the word between two parts of a text is one that is allowed.
func (r rule) allows(before, after string) bool {
	return r.unlessAfter != nil && r.unlessAfter.MatchString(before) || r.unlessBefore != nil && r.unlessBefore.MatchString(after)
}

// sorted orders findings by file and line and leaves out those that are the same.
func sorted(findings []finding) []finding {
	slices.SortStableFunc(findings, func(a, b finding) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return slices.Compact(findings)
}
