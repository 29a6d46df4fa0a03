package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// generated are the files that are not checked: pages that are generated from text that is checked elsewhere, the license and
// the changelog.
var generated = []string{"docs/api.md", "docs/conformance.md", "docs/flags.md", "LICENSE", "CHANGELOG.md"}

const (
	// ownFolder contains this program. Its string literals are the banned words.
	ownFolder = "hack/words"
	// itemsFolder contains the program that reads the checklists' numbers. Its tests contain such numbers as test
	// data.
	itemsFolder = "hack/conformance"
)

// filesOf returns the named files and the files below the named folders. Without names it returns all files of the
// repository.
func filesOf(repository fs.FS, names []string) ([]string, error) {
	if len(names) == 0 {
		names = []string{"."}
	}
	var files []string
	for _, name := range names {
		root := path.Clean(strings.TrimSuffix(name, "/..."))
		err := fs.WalkDir(repository, root, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && skipped(name):
				return fs.SkipDir
			case !entry.IsDir() && !slices.Contains(generated, name):
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing files: %w", err)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// skipped reports whether the files in a folder are not checked.
func skipped(folder string) bool {
	base := path.Base(folder)
	return folder != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "vendor" || base == "bin")
}

// check returns the findings in the files, sorted.
func check(repository fs.FS, files []string) ([]finding, error) {
	var all []finding
	for _, name := range files {
		read := readerOf(name)
		if read == nil {
			continue
		}
		source, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		found, err := read(name, source)
		if err != nil {
			return nil, err
		}
		found = append(found, missing(repository, name, source)...)
		if why := misnamed(repository, name); why != "" {
			found = append(found, finding{line: 1, found: path.Base(name), instead: why})
		}
		for _, f := range found {
			f.file = name
			all = append(all, f)
		}
	}
	return sorted(all), nil
}

// readerOf returns the function that finds the findings in a file's text; nil for a file without prose.
func readerOf(name string) func(name string, source []byte) ([]finding, error) {
	switch ext := path.Ext(name); {
	case ext == ".go":
		return checkGo
	case ext == ".md":
		return checkPage
	case ext == ".yaml", ext == ".yml", ext == ".sh", ext == ".tpl", path.Base(name) == "Makefile", path.Base(name) == "Dockerfile":
		return checkScript
	}
	return nil
}
