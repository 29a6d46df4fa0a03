// Package house is what the tests of rooms measure.
package house

import "sync"

/* A comment
of two lines is no code. */

// Door is a type with three methods.
type Door struct {
	mu   sync.Mutex
	lock inner
}

type inner struct{ open bool }

// Text has a raw string over three lines.
const Text = `one
two
three`

func (i *inner) turn(to bool, _ int) bool {
	i.open = to

	// This comment is no code.
	return i.open
}

// Turn only passes its parameters on, with the lock held.
func (d *Door) Turn(to bool, n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lock.turn(to, n)
}

// Close passes other values on, which is work.
func (d *Door) Close() bool { return d.lock.turn(false, 1) }

func (d *Door) swap(n int, to bool) bool { return d.lock.turn(to, n) }
