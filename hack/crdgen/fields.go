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

// closed are the names of fields whose inner fields the page does not list: another page describes them, or their type is Kubernetes'
// own.
var closed = []string{
	"addresses", "conditions", "configSource", "credentialsSecretRef", "machineClass", "managedFields", "metadata", "nodeRef",
	"ownerReferences", "providerConfig", "providerSpec", "providerStatus", "secretRef", "selector", "taints", "template",
}

// Fields writes tables of the CRDs' fields into the page, between its two marker lines. kubectl explain shows the fields that the page
// leaves out: the inner fields of a status, and fields that an earlier table has with the same meaning.
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
	said := map[string]bool{}
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), byKindOrder) {
		fmt.Fprintf(&out, "### %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", kind, meaning("", kinds[kind]))
		rows(&out, "", kinds[kind], said)
		out.WriteString("\n")
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

// rows writes a line for each field that is not yet in said, and an outer field before its inner fields.
func rows(out *strings.Builder, path string, schema object, said map[string]bool) {
	properties, _ := schema["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field, ok := properties[name].(object)
		top := path == ""
		if !ok || top && slices.Contains([]string{"apiVersion", "kind"}, name) || top && name == "metadata" && properties["kind"] != nil {
			continue
		}
		row := fmt.Sprintf("| `%s` | %s | %s |\n", path+name, typeOf(field), meaning(name, field))
		if group := top && (name == "spec" || name == "status"); !group && !said[row] {
			out.WriteString(row)
			said[row] = true
		}
		if path == "status." || slices.Contains(closed, name) {
			continue
		}
		rows(out, path+name+".", field, said)
		if items, ok := field["items"].(object); ok {
			rows(out, path+name+"[].", items, said)
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

// meaning returns the description of a schema on one line, without the field's own name at its beginning and an "is" after it.
func meaning(name string, schema object) string {
	text, _ := schema["description"].(string)
	words := strings.Fields(text)
	if len(words) > 2 && strings.EqualFold(words[0], name) {
		words = words[1:]
		if words[0] == "is" || words[0] == "are" {
			words = words[1:]
		}
	}
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.Join(words, " "))
}
