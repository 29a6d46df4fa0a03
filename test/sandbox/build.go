package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// module is the module that contains drover.
const module = "github.com/drover-project/drover"

// Build builds drover into the folder and returns its path. It needs the go command and this module's source.
func Build(ctx context.Context, dir string, log io.Writer) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "drover")
	began := time.Now()
	say(log, "drover: building cmd/drover")
	// Unlike go build, go run keeps the binary in Go's build cache, and links it only when something has changed.
	copied := `sh -c 'cp "$1" "$0"' "` + path + `"`
	if _, err := run(ctx, root, "go", "run", "-tags", "grpcnotrace", "-exec", copied, "./cmd/drover"); err != nil {
		return "", fmt.Errorf("building drover: %w", err)
	}
	say(log, "drover: built after %.1f s", time.Since(began).Seconds())
	return path, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	root, err := run(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("finding drover's source (say this in its repository, or name a binary with --drover): %w", err)
	}
	return strings.TrimSpace(root), nil
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// say writes one line of progress.
func say(log io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(log, format+"\n", args...)
}
