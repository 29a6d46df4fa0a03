package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ready returns the path of a repository from which version 0.1.0 can be released.
func ready(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n")
	write(t, dir, "Dockerfile", "FROM --platform=$BUILDPLATFORM golang:1.26@sha256:a AS build\nFROM base:nonroot@sha256:b\n")
	write(t, dir, ".ko.yaml", "defaultBaseImage: base:nonroot@sha256:b\n")
	for _, folder := range charts {
		write(t, dir, folder+"/Chart.yaml", "version: 0.1.0\nappVersion: 0.1.0\n")
	}
	run(t, dir, "init", "--quiet")
	run(t, dir, "add", ".")
	run(t, dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--message=x")
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestTheReleaseProgramPrintsTheReleaseCommandsOnlyForAReadyVersion(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		spoil         func(t *testing.T, dir string)
		// says is a part of the only problem that is reported. It is empty when no problem is reported.
		says string
	}{
		{"prints the commands when the changelog and the charts have the version and every file is committed", "0.1.0", func(*testing.T, string) {}, ""},
		{"refuses a version that begins with v", "v0.1.0", func(*testing.T, string) {}, "without v"},
		{"refuses to release while a file is not committed", "0.1.0", func(t *testing.T, dir string) { write(t, dir, "new.go", "package x\n") }, "new.go"},
		{"refuses a version whose tag exists", "0.1.0", func(t *testing.T, dir string) { run(t, dir, "tag", "v0.1.0") }, "the tag v0.1.0 exists"},
		{"refuses to release while the base image of ko has only a tag (F-98)", "0.1.0", func(t *testing.T, dir string) {
			write(t, dir, ".ko.yaml", "defaultBaseImage: base:nonroot\n")
			run(t, dir, "add", ".")
			run(t, dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--message=y")
		}, ".ko.yaml: base:nonroot has no digest"},
		{"refuses to release while the image that builds drover has only a tag (F-98)", "0.1.0", func(t *testing.T, dir string) {
			write(t, dir, "Dockerfile", "FROM --platform=$BUILDPLATFORM golang:1.26 AS build\nFROM base:nonroot@sha256:b\n")
			run(t, dir, "add", ".")
			run(t, dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--message=y")
		}, "Dockerfile: golang:1.26 has no digest"},
	} {
		t.Run("the release program "+tt.name, func(t *testing.T) {
			dir := ready(t)
			tt.spoil(t, dir)
			commands, problems := release(dir, tt.version, compared(t))
			if tt.says == "" {
				if len(problems) > 0 || !strings.Contains(commands, "git tag --annotate v0.1.0") {
					t.Errorf("got problems %v and commands %q", problems, commands)
				}
				return
			}
			if len(problems) != 1 || !strings.Contains(problems[0], tt.says) || commands != "" {
				t.Errorf("got problems %q and commands %q, want one that says %q", problems, commands, tt.says)
			}
		})
	}
	t.Run("the release program refuses a version that neither the changelog nor the charts have", func(t *testing.T) {
		_, problems := release(ready(t), "0.2.0", compared(t))
		if len(problems) != 1+len(charts) {
			t.Errorf("got %q", problems)
		}
	})
}

// compared returns the day on which the list of advisories was last compared with those of the publishers.
func compared(t *testing.T) time.Time {
	t.Helper()
	_, rest, _ := strings.Cut(table, comparedOn)
	text, _, _ := strings.Cut(rest, "\n")
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return day
}

func TestTheVersionsOnNodesAreHeldAgainstTheAdvisories(t *testing.T) {
	t.Run("no advisory in the list concerns a version that drover installs on nodes (F-153)", func(t *testing.T) {
		problems, err := unsafe(table, defaults)
		if err != nil || len(problems) > 0 {
			t.Errorf("error %v\n%s", err, strings.Join(problems, "\n"))
		}
	})
	const list = "runc\t1.2.8 1.3.3 1.4.0\tGHSA-1\tan escape\n"
	for _, tt := range []struct {
		name, list, version string
		says                string // part of the only problem or of the error; empty means that there is none
	}{
		{"a version below the fix of its line is concerned", list, "1.3.0", "runc 1.3.0, which drover installs on nodes, is concerned by GHSA-1 (an escape), mended in 1.2.8, 1.3.3, 1.4.0"},
		{"a version of a line that has no fix is concerned", list, "1.1.15", "GHSA-1"},
		{"a candidate of the release with the fix is concerned", list, "1.4.0-rc.1", "GHSA-1"},
		{"the version with the fix is not concerned", list, "1.3.3", ""},
		{"a later version of an older line is not concerned", list, "1.2.9", ""},
		{"a later line is not concerned", list, "1.5.0", ""},
		{"a program without a line in the list is named", "# none\n", "1.5.0", "advisories.tsv has no line about runc"},
		{"a line about another program is an error", "crun\t1.0.0\tGHSA-1\tx\n", "1.5.0", "is not a known program"},
		{"a line without tabs is an error", "runc 1.3.3 GHSA-1\n", "1.5.0", "is not a known program"},
		{"a version that is none is an error", "runc\tnew\tGHSA-1\tx\n", "1.5.0", `"new"`},
	} {
		t.Run(tt.name+" (F-153)", func(t *testing.T) {
			problems, err := unsafe(tt.list, map[string]string{"runc": tt.version})
			if err != nil {
				problems = append(problems, err.Error())
			}
			if tt.says == "" && len(problems) > 0 || tt.says != "" && (len(problems) != 1 || !strings.Contains(problems[0], tt.says)) {
				t.Errorf("got %q, want %q", problems, tt.says)
			}
		})
	}
	t.Run("the release program refuses to release weeks after the list was compared with those of the publishers (F-153)", func(t *testing.T) {
		commands, problems := release(ready(t), "0.1.0", compared(t).Add(freshFor))
		if commands != "" || len(problems) != 1 || !strings.Contains(problems[0], "advisories.tsv was compared") {
			t.Errorf("got problems %q and commands %q", problems, commands)
		}
	})
	t.Run("a list without a date is refused (F-153)", func(t *testing.T) {
		if stale(list, compared(t)) == "" {
			t.Error("it is taken")
		}
	})
}

// TestTheChartsAndTheChangelogHaveTheSameVersion checks that the charts of this repository have the same version, and that
// the changelog has that version.
func TestTheChartsAndTheChangelogHaveTheSameVersion(t *testing.T) {
	s, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.bases) != 3 {
		t.Errorf("the base images are %q, want two of the Dockerfile and one of .ko.yaml", s.bases)
	}
	// Their digests are looked up for a release.
	s.changes, s.tags, s.bases = "", nil, nil
	if problems := s.problems(s.charts[charts[0]].Version); len(problems) > 0 {
		t.Errorf("%s", strings.Join(problems, "\n"))
	}
}
