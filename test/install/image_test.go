package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// stamp is the version that the binary under test is built with.
const stamp = "v9.8.7"

// buildLine returns the arguments of go build in the Dockerfile.
func buildLine() (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^\s+(go build .*)$`).FindStringSubmatch(string(raw))
	if found == nil {
		return "", errors.New("the Dockerfile has no line with go build")
	}
	return found[1], nil
}

// build builds drover with the Dockerfile's command and returns the binary's path. It omits -trimpath, which would
// compile everything again just for this test. Unlike go build, go run keeps the binary in Go's build cache, and links it only
// when something has changed.
func build(ctx context.Context, dir string) (string, error) {
	line, err := buildLine()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "drover")
	line = strings.NewReplacer("go build", "go run", "-o /drover", `-exec "$COPY"`, " -trimpath", "").Replace(line)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "VERSION="+stamp, `COPY=sh -c 'cp "$1" "$0"' "`+out+`"`)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", line, err, said)
	}
	return out, nil
}

// dependencies returns the packages that drover is compiled from, one per line.
func dependencies(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/drover")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(explained(err))
	}
	return string(out)
}

// TestTheDockerfileBuildsDrover checks the Dockerfile as far as that is possible without a container engine.
func TestTheDockerfileBuildsDrover(t *testing.T) {
	t.Run("the Dockerfile's build command stamps the version that drover prints", func(t *testing.T) {
		said, err := exec.CommandContext(t.Context(), drover, "version").CombinedOutput()
		if err != nil || !strings.Contains(string(said), stamp) {
			t.Errorf("drover version: error %v, output %q; want %s in it", err, said, stamp)
		}
	})
	t.Run(".dockerignore excludes no folder that drover is compiled from", func(t *testing.T) {
		allowed := map[string]bool{}
		for line := range strings.Lines(readFile(t, ".dockerignore")) {
			if name, in := strings.CutPrefix(strings.TrimSpace(line), "!"); in {
				allowed[name] = true
			}
		}
		const module = "github.com/drover-project/drover/"
		for pkg := range strings.Lines(dependencies(t)) {
			if path, ours := strings.CutPrefix(strings.TrimSpace(pkg), module); ours {
				if folder, _, _ := strings.Cut(path, "/"); !allowed[folder] {
					t.Errorf("%s is left out", path)
				}
			}
		}
		for _, file := range []string{"go.mod", "go.sum"} {
			if !allowed[file] {
				t.Errorf("%s is left out", file)
			}
		}
	})
	t.Run("the Dockerfile has a base image without a shell, and a user that is not root", func(t *testing.T) {
		dockerfile := readFile(t, "Dockerfile")
		for _, want := range []string{`\nFROM gcr\.io/distroless/static-debian12:nonroot(@sha256:\S+)?\n`, `\nUSER 65532:65532\n`} {
			if !regexp.MustCompile(want).MatchString(dockerfile) {
				t.Errorf("the Dockerfile does not have %q", want)
			}
		}
	})
	t.Run("the Dockerfile builds with the Go release of go.mod", func(t *testing.T) {
		release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))[1]
		if !regexp.MustCompile(`golang:` + regexp.QuoteMeta(release) + `[ @]`).MatchString(readFile(t, "Dockerfile")) {
			t.Errorf("the Dockerfile does not build with golang:%s", release)
		}
	})
	t.Run("the Dockerfile has the same build flags and the same base image as .ko.yaml, the configuration of ko", func(t *testing.T) {
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
		line, err := buildLine()
		if err != nil {
			t.Fatal(err)
		}
		line = strings.NewReplacer(`"`, "", "-tags ", "-tags=", "$VERSION", "{{.Env.VERSION}}").Replace(line)
		for _, flag := range append(append(ko.Builds[0].Flags, ko.Builds[0].Ldflags...), ko.Builds[0].Main) {
			if !strings.Contains(line, flag) {
				t.Errorf("the Dockerfile's line %q does not have ko's %s", line, flag)
			}
		}
	})
}
