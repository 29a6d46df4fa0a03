package nodegroup

import (
	"hash/maphash"
	"maps"
	"slices"
)

// tableParts is how many maps a table has: a change copies one of them.
const tableParts = 256

// tableSeed spreads the keys over the parts; the order of keys does not follow from it.
var tableSeed = maphash.MakeSeed()

// table is a persistent map: versions of it share what is the same in them. A version is changed by set and drop until seal,
// and is immutable from then on; a copy of a sealed table is the beginning of the next version. So an event on one of
// thousands of objects costs a few small copies, and those who read the older version see nothing of it.
type table[V any] struct {
	parts *[tableParts]map[string]V
	// edit is nil while the table is sealed.
	edit *edit
}

// edit says what a version of a table has for itself, so that it may be changed in place.
type edit struct {
	parts [tableParts]bool
	// lists are the keys whose lists were copied.
	lists map[string]bool
}

func partOf(key string) uint8 { return uint8(maphash.String(tableSeed, key)) }

// get returns the value of a key, the zero value when there is none.
func (t *table[V]) get(key string) V {
	if t.parts == nil {
		var none V
		return none
	}
	return t.parts[partOf(key)][key]
}

// all goes through the whole table, in no order.
func (t *table[V]) all(yield func(string, V) bool) {
	if t.parts == nil {
		return
	}
	for _, part := range t.parts {
		for k, v := range part {
			if !yield(k, v) {
				return
			}
		}
	}
}

// from returns a value of the table, that of another part for another number; false when the table is empty.
func (t *table[V]) from(number uint8) (V, bool) {
	var none V
	if t.parts == nil {
		return none, false
	}
	for n := range len(t.parts) {
		for _, v := range t.parts[uint8(n)+number] {
			return v, true
		}
	}
	return none, false
}

func (t *table[V]) set(key string, value V) { t.part(key)[key] = value }

func (t *table[V]) drop(key string) { delete(t.part(key), key) }

// seal ends the changes to this version.
func (t *table[V]) seal() { t.edit = nil }

// part returns the map that holds a key, to be written to.
func (t *table[V]) part(key string) map[string]V {
	if t.edit == nil {
		t.edit = &edit{}
		own := new([tableParts]map[string]V)
		if t.parts != nil {
			*own = *t.parts
		}
		t.parts = own
	}
	n := partOf(key)
	if !t.edit.parts[n] {
		t.edit.parts[n] = true
		if t.parts[n] = maps.Clone(t.parts[n]); t.parts[n] == nil {
			t.parts[n] = map[string]V{}
		}
	}
	return t.parts[n]
}

// own returns the list of a key as this version may change it in place: a copy, the first time.
func own[L ~[]E, E any](t *table[L], key string) L {
	list := t.get(key)
	if t.edit != nil && t.edit.lists[key] {
		return list
	}
	list = slices.Clone(list)
	if len(list) > 0 {
		t.set(key, list)
		if t.edit.lists == nil {
			t.edit.lists = map[string]bool{}
		}
		t.edit.lists[key] = true
	}
	return list
}

// put stores the list of a key; an empty one is dropped.
func put[L ~[]E, E any](t *table[L], key string, list L) {
	if len(list) == 0 {
		t.drop(key)
		return
	}
	t.set(key, list)
}

// names are the strings that a key stands for, sorted.
type names []string

// link adds a name to those of a key. An empty key stands for nothing.
func link(t *table[names], key, name string) {
	at, found := slices.BinarySearch(t.get(key), name)
	if key == "" || found {
		return
	}
	put(t, key, slices.Insert(own(t, key), at, name))
}

// unlink removes a name from those of a key.
func unlink(t *table[names], key, name string) {
	at, found := slices.BinarySearch(t.get(key), name)
	if key == "" || !found {
		return
	}
	put(t, key, slices.Delete(own(t, key), at, at+1))
}
