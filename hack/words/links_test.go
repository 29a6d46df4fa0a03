package main

import "testing"

func TestLinksToMissingFilesAreFound(t *testing.T) {
	wantFindings(t, map[string]string{
		"docs/a.md":              "[b](b.md), [top](../README.md#begin), [gone](gone.md) and [web](https://example.org/x.md)\n",
		"docs/b.md":              "[here](#below)\n",
		"docs/decisions/0001.md": "\n",
		"README.md":              "\n",
		"a.go":                   "package a\n\n// See docs/b.md, docs/decisions/0001 and docs/gone.md.\nconst a = 1\n",
		"b.go":                   "package a\n\nconst b = \"docs/gone.md\"\n",
		"c.go":                   "package a\n\nconst c = 1 // https://example.org/docs/gone.md\n",
	}, "a.go:3 docs/gone.md", "docs/a.md:1 docs/gone.md")
}
