package membership

import (
	"hash/maphash"
	"maps"
	"slices"
)

// tableParts is the number of Go maps over which a Table spreads its keys. A change copies only the Go map that holds its key.
const tableParts = 256

// tableSeed seeds the hash that spreads the keys over the parts.
var tableSeed = maphash.MakeSeed()

// Table is a map that shares memory with its older versions. A copy of a Table is its next version. Only one Edit may change a
// version, and all changes by a new Edit leave the older versions as they are, so that these can be read concurrently.
type Table[V any] struct {
	parts *[tableParts]part[V]
	edit  *Edit
}

// part is one of the Go maps. Only its edit may change it in place.
type part[V any] struct {
	values map[string]V
	edit   *Edit
}

// Edit identifies, by its address, the changes that make one version.
type Edit struct{ _ byte }

func partOf(key string) uint8 { return uint8(maphash.String(tableSeed, key)) }

// Get returns the value of a key, or the zero value when there is none.
func (t *Table[V]) Get(key string) (value V) {
	if t.parts != nil {
		value = t.parts[partOf(key)].values[key]
	}
	return value
}

// All iterates over the whole table, in no particular order.
func (t *Table[V]) All(yield func(string, V) bool) { t.from(0)(yield) }

// from iterates over the whole table; different numbers select different parts to begin with.
func (t *Table[V]) from(number uint8) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for n := 0; t.parts != nil && n < tableParts; n++ {
			for k, v := range t.parts[uint8(n)+number].values {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// Set stores the value of a key.
func (t *Table[V]) Set(e *Edit, key string, value V) { t.writable(e, key)[key] = value }

// Drop removes a key.
func (t *Table[V]) Drop(e *Edit, key string) { delete(t.writable(e, key), key) }

// writable returns the Go map that holds a key. The first call of an Edit copies the Go map.
func (t *Table[V]) writable(e *Edit, key string) map[string]V {
	if t.parts == nil || t.edit != e {
		own := new([tableParts]part[V])
		if t.parts != nil {
			*own = *t.parts
		}
		t.parts, t.edit = own, e
	}
	p := &t.parts[partOf(key)]
	if p.values == nil || p.edit != e {
		if p.values, p.edit = maps.Clone(p.values), e; p.values == nil {
			p.values = map[string]V{}
		}
	}
	return p.values
}

// linking is the type of link and unlink.
type linking func(t *Table[[]string], e *Edit, key, name string)

// link adds a name to the sorted names stored under key. It ignores an empty key.
func link(t *Table[[]string], e *Edit, key, name string) {
	names := t.Get(key)
	if at, found := slices.BinarySearch(names, name); key != "" && !found {
		t.Set(e, key, slices.Concat(names[:at], []string{name}, names[at:]))
	}
}

// unlink removes a name from the names stored under key.
func unlink(t *Table[[]string], e *Edit, key, name string) {
	names := t.Get(key)
	switch at, found := slices.BinarySearch(names, name); {
	case !found:
	case len(names) == 1:
		t.Drop(e, key)
	default:
		t.Set(e, key, slices.Concat(names[:at], names[at+1:]))
	}
}
