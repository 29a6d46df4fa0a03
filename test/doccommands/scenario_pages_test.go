package doccommands

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCommandBlockInTheDocumentationIsRunByATest checks that a test runs each block of commands in the documentation, or
// that the page explains why no test does.
func TestEveryCommandBlockInTheDocumentationIsRunByATest(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	used := usedIDs(t, root)
	named := map[string]bool{}
	for _, page := range pages(t, root) {
		blocks, err := Read(root, page)
		if err != nil {
			t.Error(err)
		}
		for _, b := range blocks {
			switch {
			case b.Name == "" && b.NotRun == "":
				t.Errorf("%s:%d: the line above the block must be <!-- test: NAME --> or <!-- not run: REASON -->", b.Page, b.Line)
			case b.Name == "":
			case named[b.ID()]:
				t.Errorf("%s:%d: two blocks have the name %s", b.Page, b.Line, b.Name)
			case !used[b.ID()]:
				t.Errorf("%s:%d: no test runs %q", b.Page, b.Line, b.ID())
			}
			named[b.ID()] = true
		}
	}
	for id := range maps.Keys(used) {
		if !named[id] {
			t.Errorf("a test runs %q, which does not exist", id)
		}
	}
}

// pages returns the paths of the documentation.
func pages(t *testing.T, root string) (out []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			page, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, page)
		}
	}
	return out
}

// usedIDs returns the IDs of blocks that appear in tests, except in this package's own.
func usedIDs(t *testing.T, root string) map[string]bool {
	t.Helper()
	id := regexp.MustCompile(`"((?:docs/)?[\w-]+\.md#[a-z0-9-]+)"`)
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "doccommands"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, found := range id.FindAllStringSubmatch(string(source), -1) {
			out[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
