package main

import (
	"fmt"
	"strings"
)

// strict are the fields of a spec that may not be null. The API server reads replicas itself, for the scale subresource. The rules and the
// admission policies read the other fields.
var strict = map[string]bool{
	"replicas": true, "selector": true, "template": true, "spec": true, "providerSpec": true, "providerConfig": true, "versions": true,
	"kubelet": true, "removals": true, "rolloutRemovals": true, "placeholderSeries": true, "key": true, "effect": true,
}

// formerFields are fields of a Machine's spec that earlier versions of machine-controller had. Package machines/api/v1alpha1 names those
// that are set in the condition Warnings.
func formerFields(machineSpec object) {
	properties, _ := machineSpec["properties"].(object)
	versions, ok := dig(properties, "versions", "properties")
	if !ok {
		return
	}
	properties["roles"] = former("Roles is a former field of machine-controller. It is stored but has no effect.")
	versions["containerRuntime"] = former("ContainerRuntime is a former field of machine-controller. It is stored but has no effect.")
}

func former(description string) object {
	return object{"description": description, "x-kubernetes-preserve-unknown-fields": true, "nullable": true}
}

// oneOf returns a rule that a text is one of the choices. In place of an enum, it allows null.
func oneOf(choices []any) object {
	var quoted, named []string
	for _, c := range choices {
		quoted = append(quoted, fmt.Sprintf("'%v'", c))
		if c != "" {
			named = append(named, fmt.Sprint(c))
		}
	}
	return object{"rule": "self in [" + strings.Join(quoted, ", ") + "]", "message": "Unsupported value: it must be one of " + strings.Join(named, ", ")}
}

// openSpec allows in a spec what objects under machine-controller's CRDs may have, whose schema is empty: null in place of a value, which
// counts as absent, and fields that the schema does not declare, which have no effect. Without it, server-side apply and kubectl's strict
// validation would refuse manifests that they accepted before. Selectors, and lists that are maps, stay as they are.
func openSpec(schema object) {
	properties, _ := schema["properties"].(object)
	if properties == nil {
		return
	}
	schema["x-kubernetes-preserve-unknown-fields"] = true
	formerFields(schema)
	for name, property := range properties {
		field, ok := property.(object)
		if !ok || name == "selector" || field["x-kubernetes-list-type"] == "map" {
			continue
		}
		if !strict[name] {
			field["nullable"] = true
			if choices, ok := field["enum"].([]any); ok {
				delete(field, "enum")
				rules, _ := field["x-kubernetes-validations"].([]any)
				field["x-kubernetes-validations"] = append(rules, oneOf(choices))
			}
		}
		openSpec(field)
		if items, ok := field["items"].(object); ok {
			openSpec(items)
		}
	}
}
