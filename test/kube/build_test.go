package kube

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// smallSource returns a small module that is built in the same way as the control plane, but
// quickly.
func smallSource(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range map[string]string{
		"go.mod":      "module small\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.2.3\n\nreplace k8s.io/kubernetes => ./none\n",
		"go.sum":      "",
		"main.go":     "package main\n\nfunc main() {}\n",
		"none/go.mod": "module k8s.io/kubernetes\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// freshCache sets an empty cache folder for the control plane, and keeps Go's own caches.
func freshCache(t *testing.T) {
	t.Helper()
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
}

// syncBuffer is a buffer that several goroutines may write to.
type syncBuffer struct {
	mutex sync.Mutex
	data  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.data.Write(p)
}

func TestConcurrentRequestsForTheSameBinariesCauseOneBuild(t *testing.T) {
	source := smallSource(t)
	freshCache(t)
	var (
		log  syncBuffer
		both sync.WaitGroup
		dirs [2]string
		errs [2]error
	)
	for i := range dirs {
		both.Go(func() { dirs[i], errs[i] = cached(t.Context(), &log, source) })
	}
	both.Wait()
	if errs[0] != nil || errs[1] != nil || dirs[0] != dirs[1] {
		t.Fatalf("got %q and %q (%v, %v), want the same folder twice", dirs[0], dirs[1], errs[0], errs[1])
	}
	if built := strings.Count(log.data.String(), ": built in"); built != 1 {
		t.Errorf("it was built %d times, want once:\n%s", built, log.data.String())
	}
	if err := checkAssets(dirs[0], Options{Components: All()}.binaries()); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dirs[0]), "*.part")); err != nil || len(left) != 0 {
		t.Errorf("%q is left of the build (%v)", left, err)
	}
}

func TestTheControlPlaneIsBuiltIntoAnotherFolderWhenItsSourceCodeChanges(t *testing.T) {
	source := smallSource(t)
	before, err := newBuild(source)
	if err != nil {
		t.Fatal(err)
	}
	if base := filepath.Base(before.dir); !strings.HasPrefix(base, "v1.2.3-") {
		t.Errorf("the folder is %s, want the version first", base)
	}
	if err := os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nfunc main() { println() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := newBuild(source)
	if err != nil {
		t.Fatal(err)
	}
	if after.dir == before.dir {
		t.Error("another source is built into the same folder")
	}
}

func TestAFailedBuildOfTheControlPlaneReportsTheCompilersErrorAndLeavesNoFilesInTheCache(t *testing.T) {
	source := smallSource(t)
	freshCache(t)
	if err := os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nfunc main() { missing() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := cached(t.Context(), nil, source)
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("the error is %v, want what the compiler said", err)
	}
	for _, left := range []string{dir, dir + ".part"} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}

func TestTheProgressOfABuildOfTheControlPlane(t *testing.T) {
	for name, tt := range map[string]struct {
		begun, total int
		want         string
	}{
		"tells the packages and the time that is left":                           {500, 2000, "building for 1m0s, 500 of 2000 packages, about 3m0s left"},
		"tells only the time while no package is begun":                          {0, 2000, "building for 1m0s"},
		"tells only the time when the go command did not say how many there are": {500, 0, "building for 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := progressText(tt.begun, tt.total, time.Minute); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("counts a package until it is in the build cache", func(t *testing.T) {
		source := smallSource(t)
		freshCache(t)
		part := fmt.Sprintf("package part\n\nconst New = %d\n", rand.Int64())
		for name, data := range map[string]string{"part/part.go": part, "main.go": "package main\n\nimport \"small/part\"\n\nfunc main() { println(part.New) }\n"} {
			path := filepath.Join(source, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(data), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := newBuild(source)
		if err != nil {
			t.Fatal(err)
		}
		before := b.stale(t.Context())
		var output compilerOutput
		if err := b.goCommand(t.Context(), &output, "build", "-v", "-o", filepath.Join(t.TempDir(), "out")).Run(); err != nil {
			t.Fatalf("%v: %s", err, output.text())
		}
		if after := b.stale(t.Context()); before < 2 || after != before-1 || output.lines() < 1 || output.lines() > before {
			t.Errorf("%d packages were stale, go build began %d, and %d are stale afterwards", before, output.lines(), after)
		}
	})
}

func TestTheVersionOfARequiredModuleInGoMod(t *testing.T) {
	for name, test := range map[string]struct{ gomod, want string }{
		"the version in a require directive of one line is returned": {"module m\nrequire k8s.io/kubernetes v1.2.3\n", "v1.2.3"},
		"the version in a line of a require block is returned":       {"module m\nrequire (\n\ta.b/c v1.0.0\n\tk8s.io/kubernetes v1.2.4 // indirect\n)\n", "v1.2.4"},
		"no version is returned for a module that is not required":   {"module m\nrequire k8s.io/kubernetes-other v1.2.3\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := requiredVersion([]byte(test.gomod), versionModule); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDroverAndTheControlPlaneShareTheirPackages(t *testing.T) {
	t.Run("a package that both need has one version, so that it is compiled once", func(t *testing.T) {
		source, err := sourceDir()
		if err != nil {
			t.Fatal(err)
		}
		drover := packageFolders(t, filepath.Join(source, "..", "..", ".."), "./cmd/...")
		shared := 0
		for name, folder := range packageFolders(t, source, ".") {
			own, both := drover[name]
			if !both {
				continue
			}
			if shared++; own != folder {
				t.Errorf("%s is compiled twice: drover has it from %s, the control plane from %s", name, own, folder)
			}
		}
		if shared < 500 {
			t.Errorf("only %d packages are shared", shared)
		}
	})
}

// packageFolders returns the folders of the packages that a module's packages need, by import path.
func packageFolders(t *testing.T, module, packages string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"list", "-deps", "-f", "{{.ImportPath}} {{.Dir}}"}, buildFlags...), packages)...)
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the packages of %s: %v", module, err)
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		folders[name] = folder
	}
	return folders
}
