// Package fault is the closed set of ways in which a cloud can fail us. The provider's package turns every failure into
// one of these classes, once; everybody else asks for the class with [Of] and never reads a text.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	// CodeFloatingIPQuotaExceeded: the project may have no more floating IPs; IPPoolExhausted: the pool has none left.
	CodeFloatingIPQuotaExceeded Code = "FloatingIPQuotaExceeded"
	CodeIPPoolExhausted         Code = "IPPoolExhausted"
	CodeAddressesExhausted      Code = "AddressesExhausted"
	// CodeZoneUnavailable: the zone has no host that is up.
	CodeZoneUnavailable Code = "ZoneUnavailable"
	CodeNoValidHost     Code = "NoValidHost"
	// CodeServerGroupFull: the server group may have no more members.
	CodeServerGroupFull       Code = "ServerGroupFull"
	CodeFlavorNotFound        Code = "FlavorNotFound"
	CodeImageNotFound         Code = "ImageNotFound"
	CodeNetworkNotFound       Code = "NetworkNotFound"
	CodeSubnetNotFound        Code = "SubnetNotFound"
	CodeSecurityGroupNotFound Code = "SecurityGroupNotFound"
	CodeServerGroupNotFound   Code = "ServerGroupNotFound"
	CodeVolumeTypeNotFound    Code = "VolumeTypeNotFound"
	CodeKeyPairNotFound       Code = "KeyPairNotFound"
	CodeZoneNotFound          Code = "ZoneNotFound"
	CodeIPPoolNotFound        Code = "IPPoolNotFound"
	CodeResourceNotFound      Code = "ResourceNotFound"
	// CodeAmbiguousName: several things have the name; the message lists their IDs.
	CodeAmbiguousName    Code = "AmbiguousName"
	CodeUserDataTooLarge Code = "UserDataTooLarge"
	CodeInvalidSpec      Code = "InvalidSpec"
	CodeUnauthorized     Code = "Unauthorized"
	// CodeCredentialsMissing: nobody gave credentials, or none that may be sent to that endpoint.
	CodeCredentialsMissing Code = "CredentialsMissing"
	// CodeReferenceForbidden: drover's role does not let it read a Secret or ConfigMap that the spec refers to.
	CodeReferenceForbidden Code = "ReferenceForbidden"
	CodeForbidden          Code = "Forbidden"
	// CodeEndpointNotAllowed: the operator has not allowed drover to send anything to the endpoint.
	CodeEndpointNotAllowed Code = "EndpointNotAllowed"
	// CodeProjectNotAllowed: the spec aims the configured cloud's user at another project, domain or user.
	CodeProjectNotAllowed Code = "ProjectNotAllowed"
	CodeConflict          Code = "Conflict"
	CodeRateLimited       Code = "RateLimited"
	// CodeWaitingForTurn: the call waits for other calls of drover's own; nothing was refused.
	CodeWaitingForTurn   Code = "WaitingForTurn"
	CodeServerError      Code = "ServerError"
	CodeCloudUnavailable Code = "CloudUnavailable"
	// CodeForeignAnswer: something else than OpenStack answered: a proxy's page, a redirect, or more than drover reads.
	CodeForeignAnswer Code = "ForeignAnswer"
	CodeJoinTimeout   Code = "JoinTimeout"
	// CodeUnsettled: whether an earlier call made the thing is not known yet.
	CodeUnsettled Code = "Unsettled"
	// CodeBootstrapPending: what a server boots with is somebody else's to make, and is not there yet.
	CodeBootstrapPending Code = "BootstrapPending"
	CodeUnknown          Code = "Unknown"
)

// Error is a failure with its class.
type Error struct {
	Class Class
	Code  Code
	// Message is for people: what, where, what to do; the cloud's own words included. One line of at most MaxMessage
	// bytes.
	Message string
	// RetryAfter is how long the cloud asked us to wait; 0 when it did not say.
	RetryAfter time.Duration
	// Err is the cause; may be nil.
	Err error
}

// MaxMessage bounds Error.Message, in bytes. Conditions and status hold a message of that length, so that what to do about
// a failure, which often stands at the end, is not lost.
const MaxMessage = 4096

// MaxShort bounds what [Short] returns, in bytes: a message of which thousands go into one answer to the autoscaler.
const MaxShort = 256

// New returns an Error whose message is formatted as fmt.Sprintf does, and made one line by [Line].
func New(class Class, code Code, format string, args ...any) *Error {
	return &Error{Class: class, Code: code, Message: Line(fmt.Sprintf(format, args...))}
}

// Line returns a text as one line of at most MaxMessage bytes: runs of white space and control characters become one blank.
func Line(text string) string {
	return Cut(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " "), MaxMessage)
}

// Short returns a text as one line of at most MaxShort bytes, for the autoscaler.
func Short(text string) string { return Cut(Line(text), MaxShort) }

// Cut returns a text that has at most limit bytes (3 or more). An ellipsis takes the place of what is cut off, and no
// character is cut in two.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
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
	return &Error{Class: Unknown, Code: CodeUnknown, Message: Line(err.Error()), Err: err}
}

// Is tells whether err is of that class.
func Is(err error, class Class) bool {
	e := Of(err)
	return e != nil && e.Class == class
}
