package nodegroup

import (
	"hash/maphash"
	"maps"
	"slices"
)

// tableParts is how many maps a table has: a change copies one of them.
const tableParts = 256

// tableSeed spreads keys over the parts; it says nothing about order.
var tableSeed = maphash.MakeSeed()

// table maps strings to values and does not change: a new version shares with the old one all that is the same. So one
// event on thousands of objects costs a few small copies, and readers of the old version see nothing of it.
type table[V any] struct{ parts *[tableParts]map[string]V }

func partOf(key string) uint8 { return uint8(maphash.String(tableSeed, key)) }

// get gives the value of a key, the zero value when there is none.
func (t table[V]) get(key string) V {
	if t.parts == nil {
		var none V
		return none
	}
	return t.parts[partOf(key)][key]
}

// all goes through everything in the table, in no order.
func (t table[V]) all(yield func(string, V) bool) {
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

// draft begins the next version.
func (t table[V]) draft() *draft[V] { return &draft[V]{base: t} }

// draft is the next version of a table while it is being made. It copies what it changes, once.
type draft[V any] struct {
	base  table[V]
	next  *[tableParts]map[string]V
	fresh [tableParts]bool
	// own are the keys whose lists belong to the draft alone and may be changed in place.
	own map[string]bool
}

func (d *draft[V]) get(key string) V {
	if d.next == nil {
		return d.base.get(key)
	}
	return d.next[partOf(key)][key]
}

// part gives the map that holds a key, to be written to.
func (d *draft[V]) part(key string) map[string]V {
	if d.next == nil {
		d.next = new([tableParts]map[string]V)
		if d.base.parts != nil {
			*d.next = *d.base.parts
		}
	}
	n := partOf(key)
	if !d.fresh[n] {
		d.fresh[n] = true
		if d.next[n] = maps.Clone(d.next[n]); d.next[n] == nil {
			d.next[n] = map[string]V{}
		}
	}
	return d.next[n]
}

func (d *draft[V]) set(key string, value V) { d.part(key)[key] = value }

func (d *draft[V]) drop(key string) { delete(d.part(key), key) }

// done is the new version; the draft is not used any more.
func (d *draft[V]) done() table[V] {
	if d.next == nil {
		return d.base
	}
	return table[V]{parts: d.next}
}

// names are the strings that a key stands for, sorted.
type names []string

// link adds a name to those of a key. An empty key stands for nothing.
func link(d *draft[names], key, name string) {
	at, found := slices.BinarySearch(d.get(key), name)
	if key == "" || found {
		return
	}
	d.set(key, slices.Insert(own(d, key), at, name))
}

// unlink takes a name from those of a key.
func unlink(d *draft[names], key, name string) {
	at, found := slices.BinarySearch(d.get(key), name)
	if key == "" || !found {
		return
	}
	if list := slices.Delete(own(d, key), at, at+1); len(list) > 0 {
		d.set(key, list)
		return
	}
	d.drop(key)
}

// own is the list of a key as the draft may change it: a copy, the first time.
func own[L ~[]E, E any](d *draft[L], key string) L {
	list := d.get(key)
	if d.own[key] {
		return list
	}
	if d.own == nil {
		d.own = map[string]bool{}
	}
	d.own[key] = true
	// Set, because it may be written to in place.
	list = slices.Clone(list)
	if len(list) > 0 {
		d.set(key, list)
	}
	return list
}
