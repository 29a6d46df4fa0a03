// Package version returns the version of this build of drover. It imports no other package of drover.
package version

import (
	"fmt"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// version and commit are set when drover is built: -ldflags "-X github.com/drover-project/drover/version.version=v1.2.3". When
// they are empty, the go command's build information is used.
var version, commit string

// Build identifies a build of drover.
type Build struct {
	// Version is the version of the release, such as v1.2.3. It is devel when the build has no version.
	Version string
	// Commit is the revision in the repository. It is unknown when the build has no revision, and ends in -dirty when files were
	// changed.
	Commit string
	// Go is the version of Go with which drover was built.
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

// of returns the build from the values that were set when drover was built, or else from the go command's build information.
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

// revision returns the repository's revision from the build information.
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

// UserAgent returns drover's user agent for requests to Kubernetes and OpenStack. The part before the slash is also the name
// under which Kubernetes records what drover has written.
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
