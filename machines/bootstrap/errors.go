package bootstrap

import (
	"fmt"
	"strings"
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

// together returns one Problem with the texts of all errors; nil when there are none.
func together(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return problem("%s", strings.Join(texts, "; "))
}

func problem(format string, args ...any) error {
	return &Problem{Message: fmt.Sprintf(format, args...)}
}
