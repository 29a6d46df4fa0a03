package bootstrap

import (
	"fmt"
)

// Problem is an error in a Machine's own description. It does not end by waiting.
type Problem struct{ Message string }

func (p *Problem) Error() string { return p.Message }

// Waiting is a condition that must be met before there can be user data. It ends without a change of the Machine, sometimes only after an
// operator has acted.
type Waiting struct {
	Message string
	// Forbidden is true when drover's role lacks a right.
	Forbidden bool
}

func (w *Waiting) Error() string { return w.Message }

func waiting(format string, args ...any) error {
	return &Waiting{Message: fmt.Sprintf(format, args...)}
}

func problem(format string, args ...any) error {
	return &Problem{Message: fmt.Sprintf(format, args...)}
}
