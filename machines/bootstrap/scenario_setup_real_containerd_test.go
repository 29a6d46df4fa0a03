//go:build extra

package bootstrap

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// releases maps a name to the module and version of a containerd. The first release of a line may read and show its configuration in
// another way than the line before.
var releases = map[string][2]string{
	"containerd 1.7": {"github.com/containerd/containerd", "v1.7.28"},
	"containerd 2.1": {"github.com/containerd/containerd/v2", "v2.1.5"},
	"containerd 2.4": {"github.com/containerd/containerd/v2", "v2.4.2"},
}

// buildContainerd builds a containerd from its Go module, and returns the program's path.
func buildContainerd(t *testing.T, module, version string) string {
	t.Helper()
	dir := t.TempDir()
	command := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	var files struct{ Dir, GoMod string }
	if err := json.Unmarshal(command("mod", "download", "-json", module+"@"+version), &files); err != nil {
		t.Fatal(err)
	}
	// The module cache can only be read. go build may complete go.mod and go.sum, in these copies.
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(files.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "containerd")
	command("-C", files.Dir, "build", "-mod=mod", "-modfile="+filepath.Join(dir, "go.mod"), "-tags=no_btrfs,no_devmapper,no_zfs", "-ldflags=-s -w -X "+module+"/version.Version="+version, "-o", program, "./cmd/containerd")
	return program
}

// imageConfigs are configurations of images: the main file, and a file that it imports from the folder conf.d, or none.
var imageConfigs = map[string]struct{ main, imported string }{
	"no configuration":                               {},
	"the configuration of Docker's package":          {main: "disabled_plugins = [\"cri\"]\n"},
	"SystemdCgroup in a comment":                     {main: "version = 2\n# SystemdCgroup = true\n"},
	"the cgroup driver for a plugin of another name": {main: "version = 2\n[plugins.\"io.containerd.other.v1\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n"},
	"a GPU runtime": {main: `version = 2
root = "/srv/containerd"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup=true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
`},
	"a GPU runtime in a file that is imported": {main: "version = 2\nroot = \"/srv/containerd\"\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n", imported: `version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
`},
	"mirrors of its own": {main: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\nendpoint = [\"https://old.example\"]\n"},
}

// TestContainerdItselfShowsWhatTheSetupHasMended_F155 runs the setup with real releases of containerd, and reads the result with
// containerd's own command.
func TestContainerdItselfShowsWhatTheSetupHasMended_F155(t *testing.T) {
	programs := map[string]string{}
	if debian, err := exec.LookPath("containerd"); err == nil {
		programs["Debian's containerd"] = debian
	} else {
		t.Errorf("containerd is missing (Debian package containerd): %v", err)
	}
	for name, release := range releases {
		programs[name] = buildContainerd(t, release[0], release[1])
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		for _, image := range slices.Sorted(maps.Keys(imageConfigs)) {
			for system, in := range map[string]*Input{"": input("ubuntu", "{}"), ", with the operator's mirrors": siteInput("ubuntu")} {
				t.Run(name+" on an image with "+image+system, func(t *testing.T) {
					mendWith(t, programs[name], in, imageConfigs[image].main, imageConfigs[image].imported)
				})
			}
		}
	}
}

func mendWith(t *testing.T, program string, in *Input, main, imported string) {
	h := newHost(t, in)
	h.whole()
	h.must(os.MkdirAll(h.path("/usr/local/share/ca-certificates"), 0o755))
	h.must(os.Remove(h.path("bin/containerd")))
	h.must(os.Symlink(program, h.path("bin/containerd")))
	if main != "" {
		h.write("/etc/containerd/config.toml", h.local(main))
	}
	if imported != "" {
		h.write("/etc/containerd/conf.d/gpu.toml", imported)
	}
	if _, err := h.setup(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "--config", h.path("/etc/containerd/config.toml"), "config", "dump").Output()
	if err != nil {
		t.Fatal(err)
	}
	dump := strings.ReplaceAll(string(out), "'", `"`)
	runtimes := options.FindAllString(dump, -1)
	if len(runtimes) == 0 {
		t.Errorf("containerd shows no runtime:\n%s", dump)
	}
	for _, runtime := range runtimes {
		if !strings.Contains(runtime, "SystemdCgroup = true\n") {
			t.Errorf("a runtime has another cgroup driver:\n%s", runtime)
		}
	}
	gpu, own := strings.Contains(main+imported, "nvidia"), in.ownRuntimeConfig()
	for text, want := range map[string]bool{
		"\ndisabled_plugins = []\n":                                 true,
		`BinaryName = "/usr/bin/nvidia-container-runtime"`:          gpu,
		`default_runtime_name = "nvidia"`:                           gpu,
		"\nroot = \"/srv/containerd\"\n":                            gpu,
		`endpoint = ["https://old.example"]`:                        strings.Contains(main, "old.example") && !own,
		`config_path = "` + h.path("/etc/containerd/certs.d") + `"`: own || main == "",
		`"` + in.Site.PauseImage + `"`:                              own || in.Site.PauseImage == "" && strings.Contains(dump, `""`),
	} {
		if strings.Contains("\n"+dump, text) != want {
			t.Errorf("%q is in force: %v, want %v", text, !want, want)
		}
	}
	before := h.content("/etc/containerd/config.toml")
	if _, err := h.setup(); err != nil || h.content("/etc/containerd/config.toml") != before {
		t.Errorf("the next boot changes the configuration again, error %v", err)
	}
}

// options matches the options of one runtime.
var options = regexp.MustCompile(`(?s)\.containerd\.runtimes\.[a-z]+\.options\]\n.*?(\n\s*\[|$)`)
