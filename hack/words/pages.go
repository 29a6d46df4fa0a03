package main

import (
	"regexp"
	"strings"
)

// span matches text that a document marks as code.
var span = regexp.MustCompile("`[^`]*`")

// checkPage returns the findings in a Markdown document. It checks paragraphs, list items and rows of tables, but not code.
func checkPage(_ string, source []byte) ([]finding, error) {
	var found []finding
	var lines []string
	first, code := 0, false
	flush := func() {
		found = append(found, paragraph(lines, first).findings()...)
		lines = nil
	}
	for n, line := range strings.Split(string(source), "\n") {
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		if fence {
			code = !code
		}
		if fence || code || trimmed == "" || strings.HasPrefix(trimmed, "#") {
			flush()
			continue
		}
		if len(lines) > 0 && begins(trimmed) {
			flush()
		}
		if len(lines) == 0 {
			first = n + 1
		}
		lines = append(lines, line)
	}
	flush()
	return found, nil
}

// begins reports whether a line begins a list item or is a row of a table, so that it does not continue the line before it.
func begins(line string) bool {
	return strings.HasPrefix(line, "|") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || numbered.MatchString(line)
}

var numbered = regexp.MustCompile(`^\d+\. `)

// paragraph joins the lines of a paragraph, and replaces code by spaces.
func paragraph(lines []string, first int) text {
	t := joined(lines, first)
	t.body = span.ReplaceAllStringFunc(t.body, func(s string) string { return strings.Repeat("`", len(s)) })
	return t
}

// checkScript returns the findings in the comments of a manifest or a script, which are lines that begin with #.
func checkScript(_ string, source []byte) ([]finding, error) {
	var found []finding
	var lines []string
	first := 0
	flush := func() {
		found = append(found, paragraph(lines, first).findings()...)
		lines = nil
	}
	for n, line := range strings.Split(string(source), "\n") {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok || strings.HasPrefix(comment, "!") {
			flush()
			continue
		}
		if len(lines) == 0 {
			first = n + 1
		}
		lines = append(lines, strings.TrimLeft(comment, "# "))
	}
	flush()
	return found, nil
}
