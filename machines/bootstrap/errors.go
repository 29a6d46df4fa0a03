package bootstrap

import (
	"fmt"
)

// Problem is what is wrong with a Machine's own description: waiting does not cure it.
type Problem struct{ Message string }

func (p *Problem) Error() string { return p.Message }

// Waiting is what must come first before there can be user data: it passes by itself, or by an operator's hand.
type Waiting struct {
	Message string
	// Forbidden: it is drover's role that is missing.
	Forbidden bool
}

func (w *Waiting) Error() string { return w.Message }

func waiting(format string, args ...any) error {
	return &Waiting{Message: fmt.Sprintf(format, args...)}
}

func problem(format string, args ...any) error {
	return &Problem{Message: fmt.Sprintf(format, args...)}
}
