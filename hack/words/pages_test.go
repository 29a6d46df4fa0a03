package main

import "testing"

func TestForbiddenWordsAreFoundInPagesAndScripts(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		want          []string
	}{
		"a forbidden word in a paragraph is found":                          {"a.md", "# Made anew\n\nThe server is\nmade anew.\n", []string{"a.md:4 anew"}},
		"a forbidden word in a row of a table is found":                     {"a.md", "| word | meaning |\n|---|---|\n| `anew` | made anew |\n", []string{"a.md:3 anew"}},
		"a forbidden word in a block of code or in inline code is accepted": {"a.md", "```sh\nmade anew\n```\nand `made anew`\n", nil},
		"a forbidden word in a comment of a manifest is found":              {"a.yaml", "# The server is\n# made anew.\nkind: anew\n", []string{"a.yaml:2 anew"}},
		"a forbidden word in the #! line of a script is accepted":           {"a.sh", "#!/bin/anew for ever\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantFindings(t, map[string]string{test.file: test.content}, test.want...)
		})
	}
}
