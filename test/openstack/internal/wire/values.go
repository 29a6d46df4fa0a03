package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Has reports whether an attribute has one of the wanted values. When the attribute is a list, each of its elements
// counts as a value.
func (o Object) Has(key string, wanted []string) bool {
	v, known := o.Get(key)
	if !known {
		return false
	}
	switch v := v.(type) {
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return slices.Contains(wanted, s) })
	case []Object:
		return slices.ContainsFunc(v, func(inner Object) bool {
			return slices.ContainsFunc(wanted, func(w string) bool {
				name, value, _ := strings.Cut(w, "=")
				return inner.Has(name, []string{value})
			})
		})
	case bool:
		return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, fmt.Sprint(v)) })
	case nil:
		return slices.Contains(wanted, "")
	default:
		return slices.ContainsFunc(wanted, func(w string) bool { return SameText(fmt.Sprint(v), w) })
	}
}

// SameText compares strings as Neutron's database does (MySQL's usual collation): it ignores case and trailing white
// space.
func SameText(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, " "), strings.TrimRight(b, " "))
}

// MetadataView returns a map as a JSON object with sorted keys.
func MetadataView(m map[string]string) Object {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	o := make(Object, 0, len(keys))
	for _, k := range keys {
		o = append(o, Member{k, m[k]})
	}
	return o
}

// ParseISO parses a time in one of the formats that OpenStack accepts.
func ParseISO(text string) (time.Time, bool) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// Set copies a value from a request; nil keeps the current value.
func Set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
