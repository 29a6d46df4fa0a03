package version

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheVersionCommitAndUserAgentOfDrover(t *testing.T) {
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: version}, Settings: settings}
	}
	revision, modified := debug.BuildSetting{Key: "vcs.revision", Value: "0123abc"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, tc := range []struct {
		name            string
		version, commit string
		info            *debug.BuildInfo
		want            string
	}{
		{"a release shows the version and the commit that the linker has set", "v1.2.3", "4567def", built("v0.0.0-2026", revision), "drover v1.2.3 (commit 4567def, go1.26.0)"},
		{"drover from go install shows the installed version and an unknown commit", "", "", built("v1.2.3"), "drover v1.2.3 (commit unknown, go1.26.0)"},
		{"drover from go build in the repository shows the module's version and the commit", "", "", built("v1.2.4-0.2026", revision), "drover v1.2.4-0.2026 (commit 0123abc, go1.26.0)"},
		{"drover from go build with uncommitted changes shows the commit with the suffix -dirty", "", "", built("(devel)", modified, revision), "drover devel (commit 0123abc-dirty, go1.26.0)"},
		{"drover without build information shows the version devel and an unknown commit", "", "", built(""), "drover devel (commit unknown, go1.26.0)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := of(tc.version, tc.commit, tc.info).String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	t.Run("the metric drover_build_info has version, commit and Go's release as labels", func(t *testing.T) {
		b := Get()
		want := "# HELP drover_build_info Which build of drover runs. Always 1.\n# TYPE drover_build_info gauge\n" +
			`drover_build_info{commit="` + b.Commit + `",goversion="` + b.Go + `",version="` + b.Version + "\"} 1\n"
		if err := testutil.CollectAndCompare(Metric(), strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
	t.Run("the user agent begins with drover/, so Kubernetes records drover as the field manager of drover's writes", func(t *testing.T) {
		if name, _, _ := strings.Cut(UserAgent(), "/"); name != "drover" {
			t.Errorf("the user agent is %q", UserAgent())
		}
	})
}
