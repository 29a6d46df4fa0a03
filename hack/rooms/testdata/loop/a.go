// Package loop is read by the tests of the command.
package loop

// Box has a field that another file uses.
type Box struct{ size int }

func (b Box) twice() int { return double(b.size) }
