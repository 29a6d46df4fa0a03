package main

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	// link matches a link of a Markdown document to a file, up to its fragment.
	link = regexp.MustCompile(`\]\(([^)#\s]+)`)
	// document matches the path of a document from the repository's folder; the end may be left out: docs/decisions/0001.
	document = regexp.MustCompile(`\bdocs/[A-Za-z0-9_/-]+(?:\.md)?`)
	// address matches a web address, which is not checked.
	address = regexp.MustCompile(`[a-z]+://\S+`)
)

// missing returns the links of a file to files of the repository that do not exist.
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

// targets returns the paths, from the repository's folder, of the files that a line of a file refers to.
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

// exists reports whether the repository has a file or folder of that path, or with a name that begins with it.
func exists(repository fs.FS, target string) bool {
	if _, err := fs.Stat(repository, target); err == nil {
		return true
	}
	matches, _ := fs.Glob(repository, strings.TrimSuffix(target, "/")+"*")
	return len(matches) > 0
}
