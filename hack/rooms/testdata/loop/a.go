// Package loop is test data for command rooms: its files use each other in a cycle.
package loop

// Box has a field that another file uses.
type Box struct{ size int }

func (b Box) twice() int { return double(b.size) }
