package model

import (
	"errors"
	"fmt"

	"github.com/drover-project/drover/machines/fault"
)

// Kind classifies the reason why a call was refused.
type Kind string

// The kinds. Package autoscale turns each into the status code of the same name.
const (
	// InvalidArgument is the kind of a request that can never succeed, such as one with the wrong sign or without an id.
	InvalidArgument Kind = "InvalidArgument"
	// NotFound is the kind of a request for an unknown node group.
	NotFound Kind = "NotFound"
	// FailedPrecondition is the kind when the state of the group or of a node does not allow the call. Nothing was
	// changed.
	FailedPrecondition Kind = "FailedPrecondition"
	// ResourceExhausted is the kind when one request asks for too much. Nothing was changed.
	ResourceExhausted Kind = "ResourceExhausted"
	// Unavailable is the kind when the API server cannot be reached, or the outcome of a write is unknown.
	Unavailable Kind = "Unavailable"
	// Unimplemented is the kind when the group does not have the requested information.
	Unimplemented Kind = "Unimplemented"
)

// Error is the error of a refused call.
type Error struct {
	Kind Kind
	// Message is one line of at most fault.MaxShort bytes.
	Message string
	// Err is the cause. It may be nil.
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
