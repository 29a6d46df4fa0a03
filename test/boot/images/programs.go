package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const kubernetes = "k8s.io/kubernetes"

// module is a version of Kubernetes from which a kubelet is built.
type module struct {
	// version is the version without v, such as 1.37.1.
	version string
	// gomod and gosum are the content of go.mod and go.sum of a module that requires this version. When gosum is empty, Go requests
	// the checksums from its checksum database.
	gomod, gosum string
}

// requirement matches the version of Kubernetes in a go.mod.
var requirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\S+)$`)

// controlPlane returns the module from which the test control plane is built. Go's build cache already has its packages.
func controlPlane() (module, error) {
	folder := filepath.Join(source(), "..", "..", "kube", "controlplane")
	gomod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	gosum, err2 := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err := errors.Join(err, err2); err != nil {
		return module{}, fmt.Errorf("reading the control plane's module: %w; do not build this test with -trimpath", err)
	}
	found := requirement.FindSubmatch(gomod)
	if found == nil {
		return module{}, fmt.Errorf("%s requires no %s", filepath.Join(folder, "go.mod"), kubernetes)
	}
	return module{version: string(found[1]), gomod: string(gomod), gosum: string(gosum)}, nil
}

// source returns the folder of this package's source.
func source() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// staging matches the modules that Kubernetes' go.mod replaces with folders of its own repository.
var staging = regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) => \./staging/`)

// release returns the module of a published version, such as 1.34.4. The modules in its staging folder are published as v0.34.4.
func (b *builder) release(version string) (module, error) {
	files, err := b.download(kubernetes + "@v" + version)
	if err != nil {
		return module{}, err
	}
	gomod, err := os.ReadFile(files.GoMod)
	if err != nil {
		return module{}, fmt.Errorf("reading the go.mod of Kubernetes %s: %w", version, err)
	}
	var own strings.Builder
	_, _ = fmt.Fprintf(&own, "module kubelet\n\ngo 1.24.0\n\nrequire %s v%s\n", kubernetes, version)
	_, minor, _ := strings.Cut(version, ".")
	for _, found := range staging.FindAllSubmatch(gomod, -1) {
		_, _ = fmt.Fprintf(&own, "replace %[1]s => %[1]s v0.%[2]s\n", found[1], minor)
	}
	return module{version: version, gomod: own.String()}, nil
}

// downloaded is a module in Go's module cache.
type downloaded struct{ Dir, GoMod string }

func (b *builder) download(version string) (downloaded, error) {
	cmd := exec.CommandContext(b.ctx, "go", "mod", "download", "-json", version)
	cmd.Dir, cmd.Env = b.cache, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		return downloaded{}, fmt.Errorf("downloading %s: %w\n%s", version, err, out)
	}
	var d downloaded
	return d, json.Unmarshal(out, &d)
}

// kubelet returns the path of a kubelet, built with the same flags as the test control plane.
func (b *builder) kubelet(m module) (string, error) {
	dir, err := b.cached("kubelet-"+m.version, []string{m.gomod}, func(dir string) error {
		work := filepath.Join(dir, "module")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		for name, text := range map[string]string{"go.mod": m.gomod, "go.sum": m.gosum} {
			if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		const versions = "k8s.io/component-base/version"
		minor := strings.Split(m.version, ".")[1]
		ldflags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=v%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s -X %[1]s.gitTreeState=clean", versions, m.version, minor)
		env := []string{"CGO_ENABLED=0", "GOFLAGS=-mod=mod -buildvcs=false"}
		err := b.run(work, env, "go", "build", "-o", filepath.Join(dir, "kubelet"), "-ldflags", ldflags, "-trimpath", "-tags", "grpcnotrace", kubernetes+"/cmd/kubelet")
		return errors.Join(err, os.RemoveAll(work))
	})
	return filepath.Join(dir, "kubelet"), err
}

// ignition returns the path of the program ignition. It is linked with libblkid of this machine; the guests have the same library.
func (b *builder) ignition() (string, error) {
	// As in Flatcar's build, Ignition does not set SELinux labels, because the image uses none.
	const own = "github.com/coreos/ignition/v2/internal/"
	ldflags := "-s -w -X " + own + "distro.selinuxRelabel=false -X " + own + "version.Raw=" + strings.TrimPrefix(ignitionVersion, "v")
	dir, err := b.cached("ignition-"+ignitionVersion, []string{ldflags}, func(dir string) error {
		files, err := b.download("github.com/coreos/ignition/v2@" + ignitionVersion)
		if err != nil {
			return err
		}
		env := []string{"CGO_ENABLED=1", "GOFLAGS=-mod=readonly -buildvcs=false"}
		return b.run(files.Dir, env, "go", "build", "-o", filepath.Join(dir, "ignition"), "-ldflags", ldflags, "./internal")
	})
	return filepath.Join(dir, "ignition"), err
}

// run runs a program in a folder, with additional environment variables. An empty dir is the working directory. The error contains
// the program's output.
func (b *builder) run(dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOWORK=off"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", name, err, out)
	}
	return nil
}
