// Package fault defines the closed set of classes of cloud failures. The package of the cloud provider assigns one of these classes to
// every failure. All other packages ask for the class with [Of], and never read the text of a failure.
package fault

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Class is the kind of a failure. It decides what drover does about the failure ([PolicyOf]).
type Class string

// The classes.
const (
	// NotFound means that the resource with this ID does not exist.
	NotFound Class = "NotFound"
	// Quota means that the project may not have more resources of this kind.
	Quota Class = "Quota"
	// NoCapacity means that the cloud has no free capacity at present.
	NoCapacity Class = "NoCapacity"
	// RateLimited means that drover sent too many requests.
	RateLimited Class = "RateLimited"
	// Conflict means that the state of the resource does not allow the operation at present.
	Conflict Class = "Conflict"
	// Invalid means that the request can never succeed as it is (unknown flavor, unknown key).
	Invalid Class = "Invalid"
	// Auth means that the credentials are wrong or expired, or do not allow the operation.
	Auth Class = "Auth"
	// Transient means that the cloud or the connection to it failed; the outcome may be unknown.
	Transient Class = "Transient"
	// Unknown means that the failure was not recognised.
	Unknown Class = "Unknown"
)

// Code is a stable name for the cause, shown in status.errorReason and in the instance errors for the autoscaler.
type Code string

// The codes.
const (
	CodeQuotaExceeded       Code = "QuotaExceeded"
	CodePortQuotaExceeded   Code = "PortQuotaExceeded"
	CodeVolumeQuotaExceeded Code = "VolumeQuotaExceeded"
	// CodeFloatingIPQuotaExceeded means that the project may have no more floating IPs. CodeIPPoolExhausted means that the pool
	// has no free address left.
	CodeFloatingIPQuotaExceeded Code = "FloatingIPQuotaExceeded"
	CodeIPPoolExhausted         Code = "IPPoolExhausted"
	CodeAddressesExhausted      Code = "AddressesExhausted"
	// CodeZoneUnavailable means that the zone has no host that is up.
	CodeZoneUnavailable Code = "ZoneUnavailable"
	CodeNoValidHost     Code = "NoValidHost"
	// CodeServerGroupFull means that the server group may have no more members.
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
	// CodeAmbiguousName means that several resources have the name; the message lists their IDs.
	CodeAmbiguousName    Code = "AmbiguousName"
	CodeUserDataTooLarge Code = "UserDataTooLarge"
	CodeInvalidSpec      Code = "InvalidSpec"
	CodeUnauthorized     Code = "Unauthorized"
	// CodeCredentialsMissing means that there are no credentials, or none that drover may send to the endpoint.
	CodeCredentialsMissing Code = "CredentialsMissing"
	// CodeReferenceForbidden means that drover's role does not allow reading a Secret or ConfigMap that the spec refers to.
	CodeReferenceForbidden Code = "ReferenceForbidden"
	CodeForbidden          Code = "Forbidden"
	// CodeEndpointNotAllowed means that the operator has not allowed drover to send anything to the endpoint.
	CodeEndpointNotAllowed Code = "EndpointNotAllowed"
	// CodeProjectNotAllowed means that the spec combines the user of the configured cloud with another project, domain or user.
	CodeProjectNotAllowed Code = "ProjectNotAllowed"
	CodeConflict          Code = "Conflict"
	CodeRateLimited       Code = "RateLimited"
	// CodeWaitingForTurn means that drover has not sent the call yet, because other calls of drover come first. The cloud has not
	// refused it.
	CodeWaitingForTurn   Code = "WaitingForTurn"
	CodeServerError      Code = "ServerError"
	CodeCloudUnavailable Code = "CloudUnavailable"
	// CodeForeignAnswer means that the answer did not come from OpenStack (a proxy's page, a redirect), or is larger than drover reads.
	CodeForeignAnswer Code = "ForeignAnswer"
	CodeJoinTimeout   Code = "JoinTimeout"
	// CodeUnsettled means that it is not known yet whether an earlier call created the resource.
	CodeUnsettled Code = "Unsettled"
	// CodeBootstrapPending means that the data with which the server boots cannot be made yet: an object that another program or a person
	// must create is missing, or an API server does not answer.
	CodeBootstrapPending Code = "BootstrapPending"
	// CodeWaitingForInitializers and CodePaused mean that annotations of the Machine keep drover from creating its server. Only the
	// autoscaler receives these codes; a Machine shows them as reasons of its conditions.
	CodeWaitingForInitializers Code = "WaitingForInitializers"
	CodePaused                 Code = "Paused"
	// CodeObjectQuotaExceeded, CodeMachineRefused and CodeCreateError mean that a set cannot create the objects of its Machines: a
	// ResourceQuota allows no more of them, the API server or an admission webhook refuses them, or the call fails. Only sets and the
	// autoscaler receive these codes.
	CodeObjectQuotaExceeded Code = "ObjectQuotaExceeded"
	CodeMachineRefused      Code = "MachineRefused"
	CodeCreateError         Code = "CreateError"
	CodeUnknown             Code = "Unknown"
)

// Error is a failure with its class and code.
type Error struct {
	Class Class
	Code  Code
	// Message describes what failed, where, and what to do. It includes the text that the cloud returned. It is one line of at most
	// MaxMessage bytes.
	Message string
	// RetryAfter is how long the cloud asked drover to wait; 0 when it did not ask.
	RetryAfter time.Duration
	// Err is the cause. It may be nil.
	Err error
}

// MaxMessage limits the length of Error.Message, in bytes. Conditions and status fields store a message of that length without cutting it,
// because the remedy often stands at the end.
const MaxMessage = 4096

// MaxShort limits the length, in bytes, of the text that [Short] returns. One answer to the autoscaler may contain thousands of such texts.
const MaxShort = 256

// New returns an Error. Its message is formatted as by fmt.Sprintf, and made one line by [Line].
func New(class Class, code Code, format string, args ...any) *Error {
	return &Error{Class: class, Code: code, Message: Line(fmt.Sprintf(format, args...))}
}

// Line returns a text as one line of at most MaxMessage bytes. Each run of white space, control characters and invisible characters
// becomes one space. Among the invisible ones are those that change the direction of the text behind them, as U+202E does: with
// them a text could be shown as another one.
func Line(text string) string {
	return Cut(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}), " "), MaxMessage)
}

// passing matches the parts of errors of connections that are others each time: the two ends of a connection, the time at which a certificate
// was checked, and the numbers of HTTP/2 streams.
var passing = regexp.MustCompile(`\b(read|write) (tcp|udp) \S+: |\bcurrent time \S+ is |\bstream ID \d+; |\bLastStreamID=\d+, `)

// Repeated returns the text of an error, as one line that is the same each time the same call fails in the same way. So a status with it
// is not written again with each attempt.
func Repeated(text string) string { return Line(passing.ReplaceAllString(text, "")) }

// Short returns a text as one line of at most MaxShort bytes, for an answer to the autoscaler.
func Short(text string) string { return Cut(Line(text), MaxShort) }

// Cut returns a text of at most limit bytes (3 or more). An ellipsis replaces the part that is cut off, and a character is never cut in
// two.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of returns the first Error in err's chain. It returns an Error of class Unknown when there is none, and nil for nil.
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

// Is reports whether err has the given class.
func Is(err error, class Class) bool {
	e := Of(err)
	return e != nil && e.Class == class
}

// IgnoreNotFound returns nil for an error of the class NotFound, and err otherwise.
func IgnoreNotFound(err error) error {
	if Is(err, NotFound) {
		return nil
	}
	return err
}
