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
	all := map[string]any{}
	maps.Copy(all, want)
	maps.Copy(all, have)
	maps.DeleteFunc(all, func(field string, _ any) bool { return reflect.DeepEqual(want[field], have[field]) })
	var fields []string
	for _, field := range slices.Sorted(maps.Keys(all)) {
		fields = append(fields, "spec."+field)
	}
	return strings.Join(fields, ", ")
}

// specOf returns a copy of an object's spec without empty fields.
func specOf(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	prune(spec)
	return spec
}

// prune removes fields that are null or empty from a JSON value, at any depth, and reports whether the value itself is null or empty.
func prune(value any) (empty bool) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, inner any) bool { return prune(inner) })
		return len(value) == 0
	case []any:
		// An entry keeps its index even when it is empty, because its position may have a meaning.
		for i := range value {
			if prune(value[i]) {
				value[i] = nil
			}
		}
		return len(value) == 0
	}
	return value == nil || value == ""
}
