package bootstrap

import (
	"fmt"
)

// Problem is an error in a Machine's own description. Waiting alone does not resolve it.
type Problem struct{ Message string }

func (p *Problem) Error() string { return p.Message }

// Waiting is a condition that must be met before drover can create user data. It ends without a change of the Machine, but sometimes only
// after an operator has acted.
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
