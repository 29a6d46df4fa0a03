package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// charts are the folders of the charts. A chart's version is the release's version.
var charts = []string{"deploy/chart/drover-crds", "deploy/chart/drover"}

// state holds what a release depends on in the repository.
type state struct {
	// changes are the uncommitted files, one per line.
	changes string
	// tags are the repository's tags.
	tags []string
	// changelog is the text of CHANGELOG.md.
	changelog string
	// charts holds the versions in each chart, by the chart's folder.
	charts map[string]chart
	// bases are the base images of the Dockerfile and of .ko.yaml, each behind the name of its file.
	bases []string
}

type chart struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

func read(dir string) (state, error) {
	s := state{charts: map[string]chart{}}
	var err error
	if s.changes, err = git(dir, "status", "--porcelain"); err != nil {
		return state{}, err
	}
	tags, err := git(dir, "tag")
	if err != nil {
		return state{}, err
	}
	s.tags = strings.Fields(tags)
	raw, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return state{}, err
	}
	s.changelog = string(raw)
	if s.bases, err = bases(dir); err != nil {
		return state{}, err
	}
	for _, folder := range charts {
		raw, err := os.ReadFile(filepath.Join(dir, folder, "Chart.yaml"))
		if err != nil {
			return state{}, err
		}
		var c chart
		if err := yaml.Unmarshal(raw, &c); err != nil {
			return state{}, fmt.Errorf("reading %s/Chart.yaml: %w", folder, err)
		}
		s.charts[folder] = c
	}
	return s, nil
}

// base matches a line of the Dockerfile or of .ko.yaml with a base image.
var base = regexp.MustCompile(`(?m)^(?:FROM (?:--\S+ )?|defaultBaseImage: )(\S+)`)

// bases returns the base images, each behind the name of the file that names it.
func bases(dir string) (found []string, err error) {
	for _, file := range []string{"Dockerfile", ".ko.yaml"} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		for _, match := range base.FindAllSubmatch(raw, -1) {
			found = append(found, file+": "+string(match[1]))
		}
	}
	return found, nil
}

// semantic matches a version without build metadata, because tags of images cannot contain build
// metadata.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// problems returns what prevents the release of a version, and how to solve each problem.
func (s state) problems(version string) []string {
	if !semantic.MatchString(version) {
		return []string{fmt.Sprintf("%q is not a version: write it as 0.1.0 or 0.1.0-rc.1, without v", version)}
	}
	var found []string
	if s.changes != "" {
		found = append(found, "the work tree is not clean: commit or remove\n"+s.changes)
	}
	if slices.Contains(s.tags, "v"+version) {
		found = append(found, fmt.Sprintf("the tag v%s exists: choose another version", version))
	}
	if !strings.Contains(s.changelog, "\n## ["+version+"]") {
		found = append(found, fmt.Sprintf("CHANGELOG.md has no section ## [%s]: move there what stands under Unreleased", version))
	}
	for _, image := range s.bases {
		if _, digest, _ := strings.Cut(image, "@"); !strings.HasPrefix(digest, "sha256:") {
			_, name, _ := strings.Cut(image, ": ")
			found = append(found, fmt.Sprintf("%s has no digest, so another image may be behind its tag tomorrow: append @ and the digest that docker buildx imagetools inspect %s shows", image, name))
		}
	}
	for _, folder := range charts {
		if c := s.charts[folder]; c.Version != version || c.AppVersion != version {
			found = append(found, fmt.Sprintf("%s/Chart.yaml has version %s and appVersion %s: set both to %s", folder, c.Version, c.AppVersion, version))
		}
	}
	return found
}

// instructions returns the commands that release a version.
func instructions(version string) string {
	return fmt.Sprintf(`# Everything agrees. First run the demo and the trials with the newest cluster-autoscaler (docs/demo.md says how to build it), and
# write what they show into docs/cluster-autoscaler.md.
CLUSTER_AUTOSCALER=PATH make demo trials
# Then run these; REGISTRY is where your images and charts are.
git tag --annotate v%[1]s --message "drover %[1]s"
git push origin v%[1]s
docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v%[1]s --tag REGISTRY/drover:%[1]s --push .
helm package --destination dist %[2]s
helm push dist/drover-crds-%[1]s.tgz oci://REGISTRY/charts
helm push dist/drover-%[1]s.tgz oci://REGISTRY/charts`, version, strings.Join(charts, " "))
}
