package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestTheVersionOfTheBinary builds drover as the Makefile does.
func TestTheVersionOfTheBinary(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	must(t, err)
	stamp := regexp.MustCompile(`(?m)^STAMP = (.*)$`).FindStringSubmatch(string(makefile))
	if stamp == nil {
		t.Fatal("the Makefile has no STAMP")
	}
	flags := strings.NewReplacer("$(VERSION)", "v9.8.7", "$(COMMIT)", "0123abc").Replace(stamp[1])
	binary := filepath.Join(t.TempDir(), "drover")
	// The test uses go run, because it keeps the binary in Go's build cache. go build would link the binary in every run.
	copied := `sh -c 'cp "$1" "$0"' "` + binary + `"`
	if out, err := exec.CommandContext(t.Context(), "go", "run", "-ldflags", flags, "-exec", copied, ".").CombinedOutput(); err != nil {
		t.Fatalf("building drover: %v\n%s", err, out)
	}
	for _, argument := range []string{"version", "--version"} {
		t.Run("the command drover "+argument+" prints the version and the commit of drover and the release of Go", func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), binary, argument).Output()
			must(t, err)
			if want := "drover v9.8.7 (commit 0123abc, " + runtime.Version() + ")\n"; string(out) != want {
				t.Errorf("%q, want %q", out, want)
			}
		})
	}
	t.Run("the first line of drover's log names the version and the commit of drover and the release of Go", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), binary, "--grpc-address="+socketAddress(t), "--kubeconfig=/nowhere").CombinedOutput()
		if err == nil {
			t.Fatal("drover runs without a cluster")
		}
		first, _, _ := strings.Cut(string(out), "\n")
		var line struct{ Msg, Version, Commit, Go string }
		if err := json.Unmarshal([]byte(first), &line); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if line.Version != "v9.8.7" || line.Commit != "0123abc" || line.Go != runtime.Version() {
			t.Errorf("the first line is %s", first)
		}
	})
}
