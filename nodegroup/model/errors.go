package model

import (
	"errors"
	"fmt"

	"github.com/drover-project/drover/machines/fault"
)

// Kind is what a refused call means to its caller.
type Kind string

// The kinds. Package autoscale turns each into the status code of the same name.
const (
	// InvalidArgument: the request can never be answered (wrong sign, no id).
	InvalidArgument Kind = "InvalidArgument"
	// NotFound: there is no such node group.
	NotFound Kind = "NotFound"
	// FailedPrecondition: the group, or a node, is in a state that does not allow it. Nothing was changed.
	FailedPrecondition Kind = "FailedPrecondition"
	// ResourceExhausted: too much is asked for at once. Nothing was changed.
	ResourceExhausted Kind = "ResourceExhausted"
	// Unavailable: the API server cannot be reached, or the outcome of a write could not be found out.
	Unavailable Kind = "Unavailable"
	// Unimplemented: the group has no answer to that.
	Unimplemented Kind = "Unimplemented"
)

// Error is a refused call.
type Error struct {
	Kind Kind
	// Message is one line of at most fault.MaxShort bytes.
	Message string
	// Err is the cause; may be nil.
	Err error
}

// Error returns the message, and the cause after a colon.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an Error, "" for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// Refusef returns an Error without a cause.
func Refusef(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fault.Short(fmt.Sprintf(format, args...))}
}

// Unavailablef returns an Error of kind Unavailable with its cause.
func Unavailablef(err error, format string, args ...any) *Error {
	return &Error{Kind: Unavailable, Message: fmt.Sprintf(format, args...), Err: err}
}
