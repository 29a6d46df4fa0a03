package main

import (
	"slices"
	"strings"
)

// finding is a passage that must be changed.
type finding struct {
	file    string // the path with slashes, relative to the repository's root
	line    int
	found   string
	instead string // the replacement
	advice  bool
	edit    edit // the change that -fix makes; the zero value means that -fix cannot change the passage
}

// text is a passage in a file: a comment, a paragraph of a document or a string literal.
type text struct {
	body  string // the text with line breaks replaced by spaces
	line  int    // the number of the first line, from 1
	ends  []int  // the offsets in body at which the second and later lines begin
	prose bool   // true for a comment or a paragraph, false for a string literal
}

// joined returns the text of consecutive lines. first is the number of the first line.
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

// lineAt returns the number of the file's line that contains the byte at offset in the text.
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

// findings returns the uses of the rules' words in the text. It does not set the field file.
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

// allows reports whether the rule allows its word at a place between the given texts.
func (r rule) allows(before, after string) bool {
	return r.unlessAfter != nil && r.unlessAfter.MatchString(before) || r.unlessBefore != nil && r.unlessBefore.MatchString(after)
}

// sorted sorts findings by file and line, and removes duplicates.
func sorted(findings []finding) []finding {
	slices.SortStableFunc(findings, func(a, b finding) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return slices.Compact(findings)
}
