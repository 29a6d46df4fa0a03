package main

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	// link matches a Markdown link to a file, up to the link's fragment.
	link = regexp.MustCompile(`\]\(([^)#\s]+)`)
	// document matches the path of a document, relative to the repository's root. The end of the path may be omitted:
	// docs/decisions/0001.
	document = regexp.MustCompile(`\bdocs/[A-Za-z0-9_/-]+(?:\.md)?`)
	// address matches a web address, which is not checked.
	address = regexp.MustCompile(`[a-z]+://\S+`)
)

// missing returns the links in a file to files that do not exist in the repository.
func missing(repository fs.FS, name string, source []byte) []finding {
	var found []finding
	if path.Dir(name) == ownFolder {
		return nil
	}
	for n, line := range strings.Split(string(source), "\n") {
		line = address.ReplaceAllString(line, "")
		for _, target := range targets(name, line) {
			if !exists(repository, target) {
				found = append(found, finding{line: n + 1, found: target, instead: "it does not exist: refer to a file of this repository"})
			}
		}
	}
	return found
}

// targets returns the paths, relative to the repository's root, of the files that a line refers to.
func targets(name, line string) []string {
	var paths []string
	if path.Ext(name) == ".md" {
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			paths = append(paths, path.Join(path.Dir(name), match[1]))
		}
		return paths
	}
	if path.Ext(name) == ".go" {
		_, line, _ = strings.Cut(line, "//")
	}
	return document.FindAllString(line, -1)
}

// exists reports whether the repository has a file or folder whose path is target or begins with target.
func exists(repository fs.FS, target string) bool {
	if _, err := fs.Stat(repository, target); err == nil {
		return true
	}
	matches, _ := fs.Glob(repository, strings.TrimSuffix(target, "/")+"*")
	return len(matches) > 0
}
