package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// mostShown limits how much of a value a difference shows, in bytes.
const mostShown = 60

// TemplateDifferences returns why a change from one template to the other rolls the Machines: each field that differs, as
// "spec.versions.kubelet: 1.36.0 → 1.37.1", sorted by name. It returns nothing exactly when [TemplatesEqual] returns true. It hides the
// values of fields whose names contain a word such as password, secret, key or token.
func TemplateDifferences(from, to *v1alpha1.MachineTemplateSpec) []string {
	if TemplatesEqual(from, to) {
		return nil
	}
	was, is := fieldsOf(from), fieldsOf(to)
	all := maps.Clone(was)
	maps.Copy(all, is)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before, after := was[path], is[path]; before != after {
			out = append(out, fmt.Sprintf("%s: %s → %s", path, shown(path, before), shown(path, after)))
		}
	}
	if len(out) == 0 {
		return []string{"the templates differ, but not in a field that drover can show"}
	}
	return out
}

// shown returns a value as text.
func shown(path, value string) string {
	last := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	switch {
	case value == "":
		return "not set"
	case strings.Contains(last, "password"), strings.Contains(last, "secret"), strings.Contains(last, "token"), strings.Contains(last, "key"):
		return "(not shown)"
	case len(value) > mostShown:
		return strings.ToValidUTF8(value[:mostShown], "") + "…"
	}
	return value
}

// fieldsOf returns the fields of a template on which [TemplatesEqual] depends: a map from the path of each field to its value as JSON.
func fieldsOf(t *v1alpha1.MachineTemplateSpec) map[string]string {
	fields := map[string]string{}
	rest, document := split(t)
	if raw, err := json.Marshal(rest); err == nil {
		flatten("", raw, fields)
	}
	flatten("spec.providerSpec.value", document, fields)
	return fields
}

// flatten writes the fields of a JSON document into a map, by their path. If the document is not JSON, flatten writes its text as a single
// field.
func flatten(path string, document []byte, into map[string]string) {
	switch value, err := pruned(document); {
	case err != nil:
		into[path] = string(document)
	case !isEmpty(value):
		flattenValue(path, value, into)
	}
}

func flattenValue(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			flattenValue(strings.TrimPrefix(path+"."+key, "."), field, into)
		}
		if len(v) > 0 {
			return
		}
	case string:
		if v != "" {
			into[path] = v
			return
		}
	}
	raw, err := json.Marshal(value)
	if err == nil {
		into[path] = string(raw)
	}
}
