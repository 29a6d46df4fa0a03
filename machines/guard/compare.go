package guard

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Altered returns the fields of an object's spec that differ from the shipped manifest, for example "spec.validations,
// spec.variables"; empty when no field differs. An empty field equals an absent one, because API servers store some fields as
// empty.
func Altered(shipped, stored *unstructured.Unstructured) string {
	want, have := specOf(shipped), specOf(stored)
	all := maps.Clone(want)
	maps.Copy(all, have)
	var fields []string
	for field := range all {
		if !reflect.DeepEqual(want[field], have[field]) {
			fields = append(fields, "spec."+field)
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, ", ")
}

// specOf returns an object's spec without empty fields.
func specOf(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	pruned, _ := withoutEmpty(spec).(map[string]any)
	return pruned
}

// withoutEmpty returns a JSON value without fields that are null or empty, at any depth; nil when nothing is left.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for key, inner := range value {
			if inner = withoutEmpty(inner); inner != nil {
				left[key] = inner
			}
		}
		if len(left) == 0 {
			return nil
		}
		return left
	case []any:
		// An entry keeps its index even when it is empty, because its position may have a meaning.
		left := make([]any, len(value))
		for i, inner := range value {
			left[i] = withoutEmpty(inner)
		}
		if len(left) == 0 {
			return nil
		}
		return left
	case string:
		if value == "" {
			return nil
		}
	}
	return value
}
