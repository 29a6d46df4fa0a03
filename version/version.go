// Package version returns the version of this build of drover. It imports nothing of drover.
package version

import (
	"fmt"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// version and commit are set when drover is built: -ldflags "-X github.com/drover-project/drover/version.version=v1.2.3". When
// they are empty, the go command's build information counts.
var version, commit string

// Build identifies a build of drover.
type Build struct {
	// Version is that of the release, such as v1.2.3; devel when it was built without one.
	Version string
	// Commit is the revision in the repository; unknown when it was built without one. It ends in -dirty when files were changed.
	Commit string
	// Go is the release of Go that built it.
	Go string
}

// Get returns the build of this process.
func Get() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(version, commit, info)
}

// of returns the build by the values that were set when it was built, else by the go command's build information.
func of(version, commit string, info *debug.BuildInfo) Build {
	b := Build{Version: version, Commit: commit, Go: info.GoVersion}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if b.Commit == "" {
		b.Commit = revision(info)
	}
	return b
}

// revision returns the repository's revision in the build information.
func revision(info *debug.BuildInfo) string {
	found, dirty := "unknown", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			found = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	return found + dirty
}

// String returns all fields in one line.
func (b Build) String() string {
	return fmt.Sprintf("drover %s (commit %s, %s)", b.Version, b.Commit, b.Go)
}

// UserAgent returns the user agent of drover for Kubernetes and OpenStack. The part before the slash is also the name under
// which Kubernetes records what drover has written.
func UserAgent() string { return "drover/" + Get().Version }

// Metric returns the metric drover_build_info, which is always 1.
func Metric() prometheus.Collector {
	b := Get()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_build_info", Help: "Which build of drover runs. Always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go},
	})
	info.Set(1)
	return info
}
