// Package table holds the rows of one kind of resource, by ID and in the order of their creation.
package table

import "slices"

// Table holds the resources of one kind by ID and in the order of their creation.
type Table[T any] struct {
	byID map[string]T
	ids  []string
	rows []T
}

// Get returns the row with an ID.
func (t *Table[T]) Get(id string) (T, bool) {
	v, ok := t.byID[id]
	return v, ok
}

// Put adds a row. Each ID is put only once.
func (t *Table[T]) Put(id string, v T) {
	if t.byID == nil {
		t.byID = map[string]T{}
	}
	t.byID[id] = v
	t.ids = append(t.ids, id)
	t.rows = append(t.rows, v)
}

// Remove removes the row with an ID, if there is one.
func (t *Table[T]) Remove(id string) {
	if _, known := t.byID[id]; !known {
		return
	}
	delete(t.byID, id)
	i := slices.Index(t.ids, id)
	t.ids = slices.Delete(t.ids, i, i+1)
	t.rows = slices.Delete(t.rows, i, i+1)
}

// Drop removes all rows for which the function goes returns true, in one pass.
func (t *Table[T]) Drop(goes func(T) bool) {
	ids, rows := t.ids[:0:0], t.rows[:0:0]
	for i, row := range t.rows {
		if goes(row) {
			delete(t.byID, t.ids[i])
			continue
		}
		ids, rows = append(ids, t.ids[i]), append(rows, row)
	}
	t.ids, t.rows = ids, rows
}

// All returns the rows in the order of their creation. The slice belongs to the table: the caller must not store
// or change it.
func (t *Table[T]) All() []T { return t.rows }

// Len returns the number of rows.
func (t *Table[T]) Len() int { return len(t.rows) }

// AllIDs returns a copy of the IDs in the order of their rows' creation; nil when there is none.
func (t *Table[T]) AllIDs() []string { return append([]string(nil), t.ids...) }
