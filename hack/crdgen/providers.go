package main

import (
	_ "embed"
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

//go:embed providerspec.yaml
var providerSpecYAML []byte

//go:embed providerstatus.yaml
var providerStatusYAML []byte

// declareProviders adds OpenStack's fields to every provider document under the schema, so that kubectl can explain them. The
// provider documents are the value of a provider spec, the provider spec of a class, and provider statuses. In Go they are raw
// JSON, because each provider has its own fields. Unknown fields are preserved. The field providerConfig, the old name of
// providerSpec, is not changed.
func declareProviders(schema object) error {
	spec, status := object{}, object{}
	if err := yaml.Unmarshal(providerSpecYAML, &spec); err != nil {
		return fmt.Errorf("decoding the provider spec's schema: %w", err)
	}
	if err := yaml.Unmarshal(providerStatusYAML, &status); err != nil {
		return fmt.Errorf("decoding the provider status's schema: %w", err)
	}
	return walk(schema, func(name string, at object) error {
		switch name {
		case "providerSpec":
			if value, ok := dig(at, "properties", "value"); ok {
				at = value
			}
			return declare(at, spec)
		case "providerStatus":
			return declare(at, status)
		}
		return nil
	})
}

// declare adds fields to the schema of a provider document. The document keeps its own description.
func declare(at, fields object) error {
	if at["x-kubernetes-preserve-unknown-fields"] != true {
		return fmt.Errorf("declaring a provider's document: its field is not marked to preserve unknown fields")
	}
	description := at["description"]
	maps.Copy(at, fields)
	if description != nil {
		at["description"] = description
	}
	return nil
}

// walk visits every named field under the schema, and an outer field before its inner fields.
func walk(schema object, visit func(name string, at object) error) error {
	properties, _ := schema["properties"].(object)
	for name, property := range properties {
		at, ok := property.(object)
		if !ok {
			continue
		}
		if err := visit(name, at); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := walk(at, visit); err != nil {
			return fmt.Errorf("%s.%w", name, err)
		}
	}
	if items, ok := schema["items"].(object); ok {
		return walk(items, visit)
	}
	return nil
}
