// Command crdgen completes the CRDs that controller-gen writes. It adds the schema of provider documents, lets specs have nulls and
// unknown fields, adds bounds that markers cannot set, makes rules accept unchanged values, and adds annotations that keep other tools
// from deleting the CRDs. Then it writes the CRDs' fields into a page of the documentation. Its arguments are the folder with the CRDs
// and the page. Running it again changes nothing.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: crdgen FOLDER PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

// definitions matches the files that controller-gen writes: <group>_<plural>.yaml. It does not match guard.yaml and
// kustomization.yaml in the same folder.
const definitions = "*_*.yaml"

func run(dir, page string) error {
	files, err := filepath.Glob(filepath.Join(dir, definitions))
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("reading %s: it holds no %s", dir, definitions)
	}
	var crds [][]byte
	for _, file := range files {
		done, err := rewrite(file, Finish)
		if err != nil {
			return fmt.Errorf("finishing %s: %w", file, err)
		}
		crds = append(crds, done)
	}
	if _, err := rewrite(page, func(raw []byte) ([]byte, error) { return Fields(raw, crds) }); err != nil {
		return fmt.Errorf("writing %s: %w", page, err)
	}
	return nil
}

// rewrite replaces a file's content by what the given function returns for it, and returns the new content.
func rewrite(file string, change func([]byte) ([]byte, error)) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	done, err := change(raw)
	if err != nil {
		return nil, err
	}
	return done, os.WriteFile(file, done, 0o644)
}

// Finish returns the final form of a CRD that controller-gen wrote.
func Finish(raw []byte) ([]byte, error) {
	crd := object{}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	spec, ok := crd["spec"].(object)
	if crd["kind"] != "CustomResourceDefinition" || !ok {
		return nil, fmt.Errorf("decoding: not a CustomResourceDefinition")
	}
	keep(crd)
	// This field can still be true in a CRD that began as v1beta1. Server-side apply changes only fields that are set,
	// so the field must be set to false.
	spec["preserveUnknownFields"] = false
	versions, _ := spec["versions"].([]any)
	if len(versions) == 0 {
		return nil, fmt.Errorf("decoding: no versions")
	}
	for _, version := range versions {
		schema, ok := dig(version, "schema", "openAPIV3Schema")
		if !ok {
			return nil, fmt.Errorf("decoding: a version without a schema")
		}
		if err := declareProviders(schema); err != nil {
			return nil, err
		}
		if spec, ok := dig(schema, "properties", "spec"); ok {
			openSpec(spec)
		}
		if err := forgive(schema); err != nil {
			return nil, err
		}
		bound("", schema)
	}
	return yaml.Marshal(crd)
}

// object is a decoded YAML mapping.
type object = map[string]any

// dig returns the mapping that the path of keys leads to in nested mappings; false when there is none.
func dig(from any, keys ...string) (object, bool) {
	at, ok := from.(object)
	for _, key := range keys {
		if !ok {
			return nil, false
		}
		at, ok = at[key].(object)
	}
	return at, ok
}
