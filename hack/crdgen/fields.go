package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The generated part of the page is between these lines.
const (
	fieldsBegin = "<!-- fields: written by hack/crdgen -->"
	fieldsEnd   = "<!-- /fields -->"
)

// kindOrder is the order of the kinds on the page. Other kinds follow these.
var kindOrder = []string{"MachineDeployment", "MachineSet", "Machine", "MachineClass", "Cluster"}

// closed are the names of fields whose inner fields the page does not list: they have a section of their own on the page, or
// their type is Kubernetes' own.
var closed = []string{
	"addresses", "conditions", "configSource", "credentialsSecretRef", "machineClass", "managedFields", "metadata", "nodeRef",
	"ownerReferences", "providerConfig", "providerSpec", "providerStatus", "secretRef", "selector", "taints", "template",
}

// Fields writes a table of every field of the CRDs into the page, between its two marker lines.
func Fields(page []byte, crds [][]byte) ([]byte, error) {
	before, rest, found := strings.Cut(string(page), fieldsBegin)
	_, after, ended := strings.Cut(rest, fieldsEnd)
	if !found || !ended {
		return nil, fmt.Errorf("writing the fields: the page lacks the line %q or %q", fieldsBegin, fieldsEnd)
	}
	kinds := map[string]object{}
	for _, raw := range crds {
		crd := object{}
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return nil, fmt.Errorf("decoding: %w", err)
		}
		names, _ := dig(crd, "spec", "names")
		spec, _ := dig(crd, "spec")
		schema, _ := dig(spec["versions"].([]any)[0], "schema", "openAPIV3Schema")
		kinds[fmt.Sprint(names["kind"])] = schema
	}
	var out strings.Builder
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), byKindOrder) {
		section(&out, kind, kinds[kind], closed)
	}
	if metadata, ok := dig(kinds["Machine"], "properties", "spec", "properties", "metadata"); ok {
		section(&out, "Embedded metadata", metadata, closed)
	}
	if document, ok := dig(kinds["Machine"], "properties", "spec", "properties", "providerSpec", "properties", "value"); ok {
		section(&out, "The provider document", document, nil)
	}
	return []byte(before + fieldsBegin + "\n\n" + out.String() + fieldsEnd + after), nil
}

func byKindOrder(a, b string) int {
	place := func(kind string) int {
		if at := slices.Index(kindOrder, kind); at >= 0 {
			return at
		}
		return len(kindOrder)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

func section(out *strings.Builder, title string, schema object, closed []string) {
	fmt.Fprintf(out, "### %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", title, meaning(schema))
	rows(out, "", schema, closed)
	out.WriteString("\n")
}

// rows writes a line for each field, and an outer field before its inner fields.
func rows(out *strings.Builder, path string, schema object, closed []string) {
	properties, _ := schema["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field, ok := properties[name].(object)
		top := path == ""
		if !ok || top && slices.Contains([]string{"apiVersion", "kind"}, name) || top && name == "metadata" && properties["kind"] != nil {
			continue
		}
		if !top || name != "spec" && name != "status" {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", path+name, typeOf(field), meaning(field))
		}
		if slices.Contains(closed, name) {
			continue
		}
		rows(out, path+name+".", field, closed)
		if items, ok := field["items"].(object); ok {
			rows(out, path+name+"[].", items, closed)
		}
	}
}

// typeOf returns a field's type in words.
func typeOf(schema object) string {
	if values, ok := schema["additionalProperties"].(object); ok {
		return "map of " + typeOf(values)
	}
	if choices, ok := schema["enum"].([]any); ok {
		var named []string
		for _, c := range choices {
			if c != "" {
				named = append(named, fmt.Sprintf("`%v`", c))
			}
		}
		return strings.Join(named, ", ")
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return "number or text"
	}
	if schema["format"] == "date-time" {
		return "time"
	}
	switch schema["type"] {
	case "array":
		items, _ := schema["items"].(object)
		return "list of " + typeOf(items)
	case "string":
		return "text"
	case "integer":
		return "number"
	case "boolean":
		return "true or false"
	case nil:
		return "open"
	}
	return fmt.Sprint(schema["type"])
}

// meaning returns the description of a schema on one line.
func meaning(schema object) string {
	text, _ := schema["description"].(string)
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}
