//go:build cluster

package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var writePage = flag.Bool("write", false, "write the list of attempts into docs/security.md instead of comparing it")

// The page with the list of attempts, and the comments before and after the list.
const (
	securityPage = "../../docs/security.md"
	listBegins   = "<!-- attempts: begin; written by go test -tags cluster ./test/e2e -run '^TestTheListOfAttempts$' -args -write -->\n"
	listEnds     = "<!-- attempts: end -->\n"
)

func TestTheListOfAttempts(t *testing.T) {
	page, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), listBegins)
	got, after, ends := strings.Cut(rest, listEnds)
	if !begins || !ends {
		t.Fatalf("docs/security.md lacks the marks %q and %q", listBegins, listEnds)
	}
	want := renderAttempts()
	if *writePage {
		if err := os.WriteFile(securityPage, []byte(before+listBegins+want+listEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	t.Run("docs/security.md lists exactly the attacks that the tests attempt (F-1, F-11)", func(t *testing.T) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("run make generate (-attempts +page):\n%s", diff)
		}
	})
	t.Run("the tests attempt at least 120 different attacks (F-1, F-11, F-91)", func(t *testing.T) {
		seen := map[string]bool{}
		for _, a := range attempts() {
			if name := string(a.by) + a.to; seen[name] {
				t.Errorf("two attempts of the %s are to %s", a.by, a.to)
			} else {
				seen[name] = true
			}
		}
		if len(seen) < 120 {
			t.Errorf("there are %d", len(seen))
		}
	})
}

// renderAttempts returns the list of all attempts, as docs/security.md shows it.
func renderAttempts() string {
	var out strings.Builder
	out.WriteString("| who | tries to | stopped by |\n|---|---|---|\n")
	for _, a := range attempts() {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", a.by, a.to, a.stop)
	}
	return out.String()
}
