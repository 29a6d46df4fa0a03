package main

import "testing"

func TestPagesAndScriptsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		want          []string
	}{
		"a paragraph":                    {"a.md", "# Made anew\n\nThe server is\nmade anew.\n", []string{"a.md:4 anew"}},
		"a row of a table":               {"a.md", "| word | meaning |\n|---|---|\n| `anew` | made anew |\n", []string{"a.md:3 anew"}},
		"not code":                       {"a.md", "```sh\nmade anew\n```\nand `made anew`\n", nil},
		"a comment of a manifest":        {"a.yaml", "# The server is\n# made anew.\nkind: anew\n", []string{"a.yaml:2 anew"}},
		"not the first line of a script": {"a.sh", "#!/bin/anew for ever\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantFindings(t, map[string]string{test.file: test.content}, test.want...)
		})
	}
}
