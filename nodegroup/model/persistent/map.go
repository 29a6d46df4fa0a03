// Package persistent holds a map whose versions share their unchanged parts.
//
// It is a pure data structure and has nothing to do with Kubernetes or node groups.
package persistent

import (
	"hash/maphash"
	"maps"
	"slices"
)

// mapParts is the number of Go maps over which a Map spreads its keys. A change copies only the Go map that holds its key.
const mapParts = 256

// mapSeed seeds the hash that spreads the keys over the parts; it does not affect the order of keys.
var mapSeed = maphash.MakeSeed()

// Map is a persistent map: its versions share their unchanged parts. Set and Drop can change a version until Seal is called; after
// that the version is immutable, and a copy of it begins the next version. So a change of one of thousands of keys copies only a
// small part of the map, and readers of an older version do not see the change.
type Map[V any] struct {
	parts *[mapParts]map[string]V
	// edit is nil while the map is sealed.
	edit *edit
}

// edit records which parts a version has copied and may therefore change in place.
type edit struct {
	parts [mapParts]bool
	// lists holds the keys whose lists this version has copied.
	lists map[string]bool
}

func partOf(key string) uint8 { return uint8(maphash.String(mapSeed, key)) }

// Get returns the value of a key, or the zero value when there is none.
func (m *Map[V]) Get(key string) V {
	if m.parts == nil {
		var none V
		return none
	}
	return m.parts[partOf(key)][key]
}

// All iterates over the whole map, in no particular order.
func (m *Map[V]) All(yield func(string, V) bool) {
	if m.parts == nil {
		return
	}
	for _, part := range m.parts {
		for k, v := range part {
			if !yield(k, v) {
				return
			}
		}
	}
}

// From returns a value of the map; different numbers select values from different parts. It returns false when the map is
// empty.
func (m *Map[V]) From(number uint8) (V, bool) {
	var none V
	if m.parts == nil {
		return none, false
	}
	for n := range len(m.parts) {
		for _, v := range m.parts[uint8(n)+number] {
			return v, true
		}
	}
	return none, false
}

// Set stores the value of a key in this version.
func (m *Map[V]) Set(key string, value V) { m.part(key)[key] = value }

// Drop removes a key from this version.
func (m *Map[V]) Drop(key string) { delete(m.part(key), key) }

// Seal makes this version immutable.
func (m *Map[V]) Seal() { m.edit = nil }

// part returns the Go map that holds a key, for writing.
func (m *Map[V]) part(key string) map[string]V {
	if m.edit == nil {
		m.edit = &edit{}
		own := new([mapParts]map[string]V)
		if m.parts != nil {
			*own = *m.parts
		}
		m.parts = own
	}
	n := partOf(key)
	if !m.edit.parts[n] {
		m.edit.parts[n] = true
		if m.parts[n] = maps.Clone(m.parts[n]); m.parts[n] == nil {
			m.parts[n] = map[string]V{}
		}
	}
	return m.parts[n]
}

// Own returns the list of a key so that the caller can change it in place. The first call in a version copies the list.
func Own[L ~[]E, E any](t *Map[L], key string) L {
	list := t.Get(key)
	if t.edit != nil && t.edit.lists[key] {
		return list
	}
	list = slices.Clone(list)
	if len(list) > 0 {
		t.Set(key, list)
		if t.edit.lists == nil {
			t.edit.lists = map[string]bool{}
		}
		t.edit.lists[key] = true
	}
	return list
}

// Put stores the list of a key. It removes the key when the list is empty.
func Put[L ~[]E, E any](t *Map[L], key string, list L) {
	if len(list) == 0 {
		t.Drop(key)
		return
	}
	t.Set(key, list)
}

// Names are sorted strings.
type Names []string

// Link adds a name to the names stored under key. It ignores an empty key.
func Link(t *Map[Names], key, name string) {
	at, found := slices.BinarySearch(t.Get(key), name)
	if key == "" || found {
		return
	}
	Put(t, key, slices.Insert(Own(t, key), at, name))
}

// Unlink removes a name from the names stored under key.
func Unlink(t *Map[Names], key, name string) {
	at, found := slices.BinarySearch(t.Get(key), name)
	if key == "" || !found {
		return
	}
	Put(t, key, slices.Delete(Own(t, key), at, at+1))
}
