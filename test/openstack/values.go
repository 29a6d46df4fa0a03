package openstack

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// has says whether an attribute has one of the wanted values; a list has those that it contains.
func (o object) has(key string, wanted []string) bool {
	v, known := o.get(key)
	if !known {
		return false
	}
	switch v := v.(type) {
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return slices.Contains(wanted, s) })
	case []object:
		return slices.ContainsFunc(v, func(inner object) bool {
			return slices.ContainsFunc(wanted, func(w string) bool {
				name, value, _ := strings.Cut(w, "=")
				return inner.has(name, []string{value})
			})
		})
	case bool:
		return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, fmt.Sprint(v)) })
	case nil:
		return slices.Contains(wanted, "")
	default:
		return slices.ContainsFunc(wanted, func(w string) bool { return sameText(fmt.Sprint(v), w) })
	}
}

// sameText compares as the database below Neutron does (MySQL's usual collation): neither capitals nor white space at the
// end make a difference.
func sameText(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, " "), strings.TrimRight(b, " "))
}

func metadataView(m map[string]string) object {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	o := make(object, 0, len(keys))
	for _, k := range keys {
		o = append(o, member{k, m[k]})
	}
	return o
}

func parseISO(text string) (time.Time, bool) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
