package doccommands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseReturnsTheCommandBlocksOfADocumentationPage(t *testing.T) {
	t.Parallel()
	page := `
<!-- test: first -->
~sh
kubectl get x |
  sort
~

1. In a list:

   <!-- not run: for a reason -->

   ~sh
   kubectl get y <<EOF
     z: 1
   EOF
   ~

~yaml
a: b
~
~sh
true
~
`
	got, err := parse("docs/a.md", strings.ReplaceAll(page, "~", fence))
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Page: "docs/a.md", Line: 3, Name: "first", Commands: "kubectl get x |\n  sort\n"},
		{Page: "docs/a.md", Line: 12, NotRun: "for a reason", Commands: "kubectl get y <<EOF\n  z: 1\nEOF\n"},
		{Page: "docs/a.md", Line: 21, Commands: "true\n"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d blocks, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("block %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestDocumentationPagesWithInvalidCommandBlocksAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ page, want string }{
		"a page with the comment tests: instead of test: above a block is refused": {"<!-- tests: a -->\n~sh\na\n~\n", "p.md:2: the comment above the block must be"},
		"a page with a block whose name contains a blank is refused":               {"<!-- test: a b -->\n~sh\na\n~\n", `the name "a b"`},
		"a page with a block in the language bash instead of sh is refused":        {"~bash\na\n~\n", "p.md:1: the language of commands is sh, not bash"},
		"a page with a command in a block without a language is refused":           {"~\nkubectl get x\n~\n", `p.md:2: "kubectl get x" stands in a block without a language`},
		"a page with a block that is not closed is refused":                        {"~sh\nkubectl get x\n", "p.md:1: the block is not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parse("p.md", strings.ReplaceAll(tt.page, "~", fence)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %s", err, tt.want)
			}
		})
	}
}

func TestTheShellRunsACommandBlockUntilACommandFails(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	page := "<!-- test: write -->\n~sh\necho NAME in NAMESPACE > file\n~\n<!-- test: read -->\n~sh\ncat file $KUBECONFIG\n~\n<!-- test: fail -->\n~sh\necho before\nfalse\necho after\n~\n"
	if err := os.WriteFile(filepath.Join(root, "p.md"), []byte(strings.ReplaceAll(page, "~", fence)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Shell{Dir: t.TempDir(), Words: map[string]string{"NAME": "a"}, root: root, kubeconfig: "p.md", path: os.Getenv("PATH")}
	if err := link(root, s.Dir); err != nil {
		t.Fatal(err)
	}
	s.Run(t, "p.md#write")
	if got, want := s.Run(t, "p.md#read"), "a in NAMESPACE\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "<!-- test: write -->") {
		t.Errorf("got %q, want it to begin with %q, and the file that KUBECONFIG names", got, want)
	}
	if got, err := s.Try(t.Context(), "p.md#fail"); err == nil || got != "before\n" {
		t.Errorf("commands after one that failed were run: %q, %v", got, err)
	}
	if _, err := s.Try(t.Context(), "p.md#none"); err == nil || !strings.Contains(err.Error(), "<!-- test: none -->") {
		t.Errorf("a block that does not exist: %v", err)
	}
}
