package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	buildName = "controlplane"
	// versionPackage is the package with the variables that the components report as their version.
	versionPackage = "k8s.io/component-base/version"
	progressEvery  = 15 * time.Second
)

// buildFlags are the flags of go build: the same as those of drover (Makefile), so that Go's build cache has the packages that both
// need after the first of the two builds. With the tag grpcnotrace, which the releases of Kubernetes use too, the linker can remove
// unused methods.
var buildFlags = []string{"-tags", "grpcnotrace"}

// cached returns the folder with the binaries built from source. It builds them first unless an earlier call has done
// so.
func cached(ctx context.Context, log io.Writer, source string) (string, error) {
	b, err := newBuild(source)
	if err != nil {
		return "", fmt.Errorf("preparing to build the control plane: %w", err)
	}
	if b.done() {
		return b.dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(b.dir), 0o755); err != nil {
		return "", fmt.Errorf("preparing to build the control plane: %w", err)
	}
	unlock, err := lockFile(ctx, b.dir+".lock", func() {
		writeLine(log, "control plane %s: waiting for another process that is building it", b.version)
	})
	if err != nil {
		return "", fmt.Errorf("locking the control plane's build: %w", err)
	}
	defer unlock()
	if b.done() {
		return b.dir, nil
	}
	return b.dir, b.run(ctx, log)
}

// build is one version of the control plane and its place in the cache.
type build struct {
	source, version, dir string
}

// newBuild returns the build of a source. The name of its folder depends on everything that determines the contents of
// the folder.
func newBuild(source string) (build, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return build{}, err
	}
	files = append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"))
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, runtime.GOOS, runtime.GOARCH, buildFlags))
	var version string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return build{}, err
		}
		sum.Write(fmt.Appendln(nil, filepath.Base(file), len(data)))
		sum.Write(data)
		if filepath.Base(file) == "go.mod" {
			version = requiredVersion(data, versionModule)
		}
	}
	if version == "" {
		return build{}, fmt.Errorf("%s requires no %s", filepath.Join(source, "go.mod"), versionModule)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return build{}, err
	}
	stamp := fmt.Sprintf("%s-%x", version, sum.Sum(nil)[:6])
	return build{source: source, version: version, dir: filepath.Join(cache, "drover", "controlplane", stamp)}, nil
}

// requiredVersion returns the version of a module that a go.mod requires. It is empty when the go.mod does not require
// the module.
func requiredVersion(gomod []byte, module string) string {
	for line := range strings.Lines(string(gomod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module {
			return fields[1]
		}
	}
	return ""
}

// done reports whether the build is complete. A folder receives its final name only when all binaries are built.
func (b build) done() bool {
	_, err := os.Stat(filepath.Join(b.dir, buildName))
	return err == nil
}

// run builds into a folder with a temporary name, and renames the folder when the build is complete. The caller holds
// the lock, so run may remove what an interrupted build has left.
func (b build) run(ctx context.Context, log io.Writer) error {
	part := b.dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("removing an interrupted build: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return fmt.Errorf("creating the build's folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	writeLine(log, "control plane %s: building it once into %s (seconds to 12 minutes, as much of it as Go's build cache lacks)", b.version, b.dir)
	began := time.Now()
	if err := b.compile(ctx, log, part); err != nil {
		return err
	}
	for _, name := range (Options{Components: All()}).binaries() {
		if err := os.Symlink(buildName, filepath.Join(part, name)); err != nil {
			return fmt.Errorf("linking the component %s: %w", name, err)
		}
	}
	if err := os.Rename(part, b.dir); err != nil {
		return fmt.Errorf("moving the finished build to its place: %w", err)
	}
	writeLine(log, "control plane %s: built in %s", b.version, time.Since(began).Round(time.Second))
	return nil
}

func (b build) compile(ctx context.Context, log io.Writer, part string) error {
	minor, _, _ := strings.Cut(strings.TrimPrefix(b.version, "v1."), ".")
	ldflags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s -X %[1]s.gitTreeState=clean",
		versionPackage, b.version, minor)
	var output compilerOutput
	args := []string{"build", "-v", "-o", filepath.Join(part, buildName), "-ldflags", ldflags}
	cmd := b.goCommand(ctx, &output, args...)
	total := b.stale(ctx)
	began := time.Now()
	stop := every(progressEvery, func() {
		writeLine(log, "control plane %s: %s", b.version, progressText(output.lines(), total, time.Since(began)))
	})
	err := cmd.Run()
	stop()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("building the control plane needs the go command on the PATH (or set %s to a folder with the binaries): %w", assetsVariable, err)
	case err != nil:
		return fmt.Errorf("building the control plane in %s: %w\n%s", b.source, err, lastLines(output.text(), tailLines))
	}
	return nil
}

// goCommand returns a command of the go tool for the control plane's module. args are the tool's arguments, without buildFlags and the
// package. With GOGC=400 the compiler needs less processor time and more memory.
func (b build) goCommand(ctx context.Context, output io.Writer, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append(append(args, buildFlags...), ".")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.source, output, output
	cmd.Env = append(os.Environ(), "GOGC=400", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	endWithGroup(cmd)
	return cmd
}

// stale returns the number of packages that Go's build cache does not have; 0 when the go command cannot say it.
func (b build) stale(ctx context.Context) int {
	var names bytes.Buffer
	if err := b.goCommand(ctx, &names, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}").Run(); err != nil {
		return 0
	}
	return len(strings.Fields(names.String()))
}

// progressText describes how far a build is: how many of the packages the compiler has begun, and how long the rest will take if it takes as
// long for each. total is 0 when the number of packages is not known.
func progressText(begun, total int, after time.Duration) string {
	text := fmt.Sprintf("building for %s", after.Round(time.Second))
	if total == 0 || begun == 0 || begun > total {
		return text
	}
	left := after / time.Duration(begun) * time.Duration(total-begun)
	return fmt.Sprintf("%s, %d of %d packages, about %s left", text, begun, total, left.Round(10*time.Second))
}

// compilerOutput collects the output of go build -v, which writes the name of each package that it begins to compile in a line of its own.
type compilerOutput struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write implements io.Writer.
func (o *compilerOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.Write(p)
}

func (o *compilerOutput) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.data.Bytes())
}

func (o *compilerOutput) lines() int { return bytes.Count(o.text(), []byte("\n")) }

// every calls f at the given interval until stop is called.
func every(interval time.Duration, f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				f()
			}
		}
	}()
	return func() { close(done); <-ended }
}

// writeLine writes one line to a log, which may be nil. It ignores errors, because a log that cannot be written must not fail the
// build.
func writeLine(log io.Writer, format string, args ...any) {
	if log != nil {
		_, _ = fmt.Fprintf(log, format+"\n", args...)
	}
}
