package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// buildLine returns the arguments of go build in the Dockerfile.
func buildLine(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^\s+(go build .*)$`).FindStringSubmatch(readFile(t, "Dockerfile"))
	if found == nil {
		t.Fatal("the Dockerfile has no line with go build")
	}
	return found[1]
}

// TestTheImage holds what can be held without a container engine.
func TestTheImage(t *testing.T) {
	t.Run("the Dockerfile's build line builds drover from what .dockerignore lets in, and stamps the version", func(t *testing.T) {
		source, out := t.TempDir(), filepath.Join(t.TempDir(), "drover")
		for line := range strings.Lines(readFile(t, ".dockerignore")) {
			if name, in := strings.CutPrefix(strings.TrimSpace(line), "!"); in {
				copied(t, filepath.Join(root, name), filepath.Join(source, name))
			}
		}
		// -trimpath would compile all of Kubernetes' client again, for this test alone.
		line := strings.NewReplacer("-o /drover", "-o "+out, " -trimpath", "").Replace(buildLine(t))
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "VERSION=v9.8.7")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, said)
		}
		said, err := exec.CommandContext(t.Context(), out, "version").CombinedOutput()
		if err != nil || !strings.Contains(string(said), "v9.8.7") {
			t.Errorf("drover version: error %v, output %q; want v9.8.7 in it", err, said)
		}
	})
	t.Run("the base has no shell, and the user is not root", func(t *testing.T) {
		dockerfile := readFile(t, "Dockerfile")
		for _, want := range []string{"\nFROM gcr.io/distroless/static-debian12:nonroot\n", "\nUSER 65532:65532\n"} {
			if !strings.Contains(dockerfile, want) {
				t.Errorf("the Dockerfile does not have %q", strings.TrimSpace(want))
			}
		}
	})
	t.Run("the Go release is that of go.mod", func(t *testing.T) {
		release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))[1]
		if !strings.Contains(readFile(t, "Dockerfile"), "golang:"+release+" ") {
			t.Errorf("the Dockerfile does not build with golang:%s", release)
		}
	})
	t.Run("ko builds with the same flags on the same base", func(t *testing.T) {
		var ko struct {
			DefaultBaseImage string   `json:"defaultBaseImage"`
			DefaultPlatforms []string `json:"defaultPlatforms"`
			Builds           []struct {
				Main                string
				Env, Flags, Ldflags []string
			}
		}
		if err := yaml.Unmarshal([]byte(readFile(t, ".ko.yaml")), &ko); err != nil {
			t.Fatal(err)
		}
		if len(ko.Builds) != 1 || !strings.Contains(readFile(t, "Dockerfile"), "FROM "+ko.DefaultBaseImage+"\n") {
			t.Fatalf("got %+v", ko)
		}
		line := strings.NewReplacer(`"`, "", "-tags ", "-tags=", "$VERSION", "{{.Env.VERSION}}").Replace(buildLine(t))
		for _, flag := range append(append(ko.Builds[0].Flags, ko.Builds[0].Ldflags...), ko.Builds[0].Main) {
			if !strings.Contains(line, flag) {
				t.Errorf("the Dockerfile's line %q does not have ko's %s", line, flag)
			}
		}
	})
}

// copied copies a file or folder.
func copied(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
