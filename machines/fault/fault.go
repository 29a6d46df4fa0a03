// Package fault is the closed set of ways in which a cloud can fail us. The provider's package turns every failure into
// one of these classes, once; everybody else asks for the class with [Of] and never reads a text.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Class says what kind of failure it was, and so what may be done about it.
type Class string

// The classes.
const (
	// NotFound: the thing named by ID is not there.
	NotFound Class = "NotFound"
	// Quota: the project may not have more of it.
	Quota Class = "Quota"
	// NoCapacity: the cloud has no room for it just now.
	NoCapacity Class = "NoCapacity"
	// RateLimited: we asked too often.
	RateLimited Class = "RateLimited"
	// Conflict: the thing is in a state that does not allow it now.
	Conflict Class = "Conflict"
	// Invalid: the request can never succeed as it is (unknown flavor, unknown key).
	Invalid Class = "Invalid"
	// Auth: the credentials are wrong, expired, or may not do it.
	Auth Class = "Auth"
	// Transient: the cloud or the way to it failed; the outcome may be unknown.
	Transient Class = "Transient"
	// Unknown: none of the above could be recognised.
	Unknown Class = "Unknown"
)

// Code is a stable name for the cause, shown in status.errorReason and in the autoscaler's instance errors.
type Code string

// The codes.
const (
	CodeQuotaExceeded       Code = "QuotaExceeded"
	CodePortQuotaExceeded   Code = "PortQuotaExceeded"
	CodeVolumeQuotaExceeded Code = "VolumeQuotaExceeded"
	CodeIPPoolExhausted     Code = "IPPoolExhausted"
	CodeNoValidHost         Code = "NoValidHost"
	CodeFlavorNotFound      Code = "FlavorNotFound"
	CodeImageNotFound       Code = "ImageNotFound"
	CodeNetworkNotFound     Code = "NetworkNotFound"
	CodeResourceNotFound    Code = "ResourceNotFound"
	CodeInvalidSpec         Code = "InvalidSpec"
	CodeUnauthorized        Code = "Unauthorized"
	CodeForbidden           Code = "Forbidden"
	CodeConflict            Code = "Conflict"
	CodeRateLimited         Code = "RateLimited"
	CodeServerError         Code = "ServerError"
	CodeCloudUnavailable    Code = "CloudUnavailable"
	CodeBootstrapFailed     Code = "BootstrapFailed"
	CodeJoinTimeout         Code = "JoinTimeout"
	CodeUnknown             Code = "Unknown"
)

// Error is a failure with its class.
type Error struct {
	Class Class
	Code  Code
	// Message is for people: what, where, what to do; the cloud's own words included.
	Message string
	// RetryAfter is how long the cloud asked us to wait; 0 when it did not say.
	RetryAfter time.Duration
	// Err is the cause; may be nil.
	Err error
}

// New makes an Error whose message is formatted as fmt.Sprintf does.
func New(class Class, code Code, format string, args ...any) *Error {
	return &Error{Class: class, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of finds the Error in err's chain. An err without one is Unknown; nil stays nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: Unknown, Code: CodeUnknown, Message: err.Error(), Err: err}
}

// Is tells whether err is of that class.
func Is(err error, class Class) bool {
	e := Of(err)
	return e != nil && e.Class == class
}
