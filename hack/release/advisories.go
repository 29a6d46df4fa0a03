package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/drover-project/drover/machines/bootstrap"
)

// table is the list of advisories.
//
//go:embed advisories.tsv
var table string

// defaults are the versions that drover's setup installs on nodes.
var defaults = map[string]string{
	"containerd": bootstrap.DefaultContainerd, "runc": bootstrap.DefaultRunc, "cni-plugins": bootstrap.DefaultCNIPlugins,
}

const (
	// comparedOn precedes the date on which the list was last compared with those of the publishers.
	comparedOn = "# Compared with the publishers' lists on: "
	// freshFor is how long after that date a version can be released.
	freshFor = 14 * 24 * time.Hour
)

// unsafe returns a problem for each advisory that concerns one of the versions, by program, and for each program without an advisory, whose
// versions nobody compares. It returns an error if the list cannot be read.
func unsafe(list string, versions map[string]string) (problems []string, err error) {
	listed := map[string]bool{}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || versions[fields[0]] == "" {
			return nil, fmt.Errorf("advisories.tsv: %q is not a known program, versions, an advisory and a text, separated by tabs", line)
		}
		program, fixed := fields[0], strings.Fields(fields[1])
		listed[program] = true
		safe, err := mended(versions[program], fixed)
		if err != nil {
			return nil, fmt.Errorf("advisories.tsv: %q: %w", line, err)
		}
		if !safe {
			problems = append(problems, fmt.Sprintf("%s %s, which drover installs on nodes, is concerned by %s (%s), mended in %s: raise it in machines/bootstrap/versions.go",
				program, versions[program], fields[2], fields[3], strings.Join(fixed, ", ")))
		}
	}
	for _, program := range slices.Sorted(maps.Keys(versions)) {
		if !listed[program] {
			problems = append(problems, "advisories.tsv has no line about "+program)
		}
	}
	return problems, nil
}

// mended reports whether a version has a fix that was released in the given versions, one for each line: the version is not below that of
// its own line, or it is above all of them.
func mended(have string, fixed []string) (bool, error) {
	at, err := version.ParseSemantic(have)
	if err != nil {
		return false, err
	}
	above := len(fixed) > 0
	for _, text := range fixed {
		fix, err := version.ParseSemantic(text)
		if err != nil {
			return false, err
		}
		if fix.Major() == at.Major() && fix.Minor() == at.Minor() {
			return at.AtLeast(fix), nil
		}
		above = above && at.AtLeast(fix)
	}
	return above, nil
}

// stale returns a problem when the list was not compared with those of the publishers in the weeks before now; empty when it was.
func stale(list string, now time.Time) string {
	_, rest, _ := strings.Cut(list, comparedOn)
	text, _, _ := strings.Cut(rest, "\n")
	day, err := time.Parse(time.DateOnly, text)
	if err == nil && now.Sub(day) < freshFor {
		return ""
	}
	return fmt.Sprintf("hack/release/advisories.tsv was compared with the publishers' lists on %q: compare it again as CONTRIBUTING.md describes, and write today's date there", text)
}
