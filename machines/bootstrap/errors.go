package bootstrap

import (
	"fmt"
)

// Problem is an error in a Machine's spec, annotations or class, or in drover's own settings. Waiting alone does not resolve it.
type Problem struct{ Message string }

func (p *Problem) Error() string { return p.Message }

// Waiting is the error that is returned while drover cannot create user data yet, because an object or permission that drover
// needs is missing or out of date. The Machine need not change, but sometimes an operator must act.
type Waiting struct {
	Message string
	// Forbidden is true when drover's role lacks a permission.
	Forbidden bool
}

func (w *Waiting) Error() string { return w.Message }

func waiting(format string, args ...any) error {
	return &Waiting{Message: fmt.Sprintf(format, args...)}
}

func problem(format string, args ...any) error {
	return &Problem{Message: fmt.Sprintf(format, args...)}
}
