package main

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// repository returns a repository of files with their contents.
func repository(files map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, content := range files {
		all[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return all
}

// checked returns the findings in a repository, without advice, as "file:line word".
func checked(t *testing.T, files map[string]string) []string {
	t.Helper()
	all := repository(files)
	names, err := filesOf(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	findings, err := check(all, names)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range findings {
		if !f.advice {
			lines = append(lines, fmt.Sprintf("%s:%d %s", f.file, f.line, f.found))
		}
	}
	return lines
}

// wantFindings fails the test unless the findings in a repository equal want.
func wantFindings(t *testing.T, files map[string]string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, checked(t, files)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
