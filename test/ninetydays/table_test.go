package ninetydays

// table is a list whose rows are found by a key. The order of the rows has no meaning.
type table[T any] struct {
	rows []T
	keys []string
	at   map[string]int
}

func newTable[T any]() *table[T] { return &table[T]{at: map[string]int{}} }

// put adds a row, or replaces the row of that key.
func (t *table[T]) put(key string, row T) {
	if i, known := t.at[key]; known {
		t.rows[i] = row
		return
	}
	t.at[key] = len(t.rows)
	t.rows, t.keys = append(t.rows, row), append(t.keys, key)
}

// drop removes the row of that key, if it exists. The last row moves to the removed row's position.
func (t *table[T]) drop(key string) {
	i, known := t.at[key]
	if !known {
		return
	}
	last := len(t.rows) - 1
	t.rows[i], t.keys[i] = t.rows[last], t.keys[last]
	t.at[t.keys[i]] = i
	t.rows, t.keys = t.rows[:last], t.keys[:last]
	delete(t.at, key)
}

// row returns the row of that key, or nil. The pointer is valid until the table changes.
func (t *table[T]) row(key string) *T {
	if i, known := t.at[key]; known {
		return &t.rows[i]
	}
	return nil
}
