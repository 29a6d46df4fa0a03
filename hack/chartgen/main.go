// Command chartgen writes the templates of the Helm charts from the manifests of the kustomizations: the CRDs with the policy
// that protects them, the other policies, and the roles. Its argument is the folder deploy. Running it again changes nothing.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chartgen FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chartgen:", err)
		os.Exit(1)
	}
}

// source is a set of manifests and the folder in a chart for their templates.
type source struct {
	// files is a file pattern, relative to the folder that is chartgen's argument.
	files string
	// to is the folder for the templates, relative to the same folder as files. chartgen replaces all files in it.
	to string
	// template returns the template for a manifest.
	template func(manifest string) (string, error)
}

func sources() []source {
	return []source{
		{"crds/*.yaml", "chart/drover-crds/templates", unchanged},
		{"policies/*.yaml", "chart/drover/templates/policies", unchanged},
		{"rbac/*.yaml", "chart/drover/templates/rbac", roles},
		{"machine-controller/*.yaml", "chart/drover/templates/machine-controller", beside},
		{"operating-system-manager/*.yaml", "chart/drover/templates/operating-system-manager", managed},
		{"cluster-autoscaler/rbac.yaml", "chart/drover/templates/cluster-autoscaler", autoscaler},
		{"cluster-autoscaler/flags", "chart/drover/files/cluster-autoscaler", unchanged},
	}
}

func run(dir string) error {
	for _, s := range sources() {
		if err := s.write(dir); err != nil {
			return fmt.Errorf("writing %s: %w", s.to, err)
		}
	}
	return nil
}

// write replaces the files in the chart's folder by the templates for the manifests.
func (s source) write(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, s.files))
	if err != nil {
		return err
	}
	to := filepath.Join(dir, s.to)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "kustomization.yaml" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(raw, []byte("{{")) {
			return fmt.Errorf("reading %s: Helm would take its {{ for the beginning of an action: write it otherwise", file)
		}
		text, err := s.template(string(raw))
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
