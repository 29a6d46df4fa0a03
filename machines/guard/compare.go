package guard

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Altered returns which fields of an object's spec differ from the shipped one, as "spec.validations, spec.variables"; empty
// when none does. A field that is empty is the same as one that is absent, because API servers write some of them out.
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

// withoutEmpty returns a JSON value without the fields that are null or empty, however deep; nil when nothing is left.
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
		// An entry stays in its place, also when it is empty: it may mean something there.
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
