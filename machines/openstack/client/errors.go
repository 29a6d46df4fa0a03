package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// refusal is a row of the table that maps error responses to fault classes. The first matching row applies.
type refusal struct {
	service Service // empty means any service
	status  int     // 0 means any status
	kind    string  // Neutron's error type; empty means any
	text    *regexp.Regexp
	class   fault.Class
	code    fault.Code
}

// refusals maps error responses to fault classes and codes. The texts were seen in the OpenStack releases Zed to Epoxy.
var refusals = []refusal{
	{status: 401, class: fault.Auth, code: fault.CodeUnauthorized},
	// Keystone answers 404 to a token request with a deleted application credential.
	{service: Identity, status: 404, class: fault.Auth, code: fault.CodeUnauthorized},
	// When a server group is full, Nova answers 403 as well, but no quota of the project is exhausted.
	{service: Compute, status: 403, text: regexp.MustCompile(`(?i)too many servers in group`), class: fault.NoCapacity, code: fault.CodeServerGroupFull},
	{service: Compute, status: 403, text: regexp.MustCompile(`(?i)metadata`), class: fault.Invalid, code: fault.CodeInvalidSpec},
	{status: 403, text: regexp.MustCompile(`(?i)maximum number of ports|quota.*\bport`), class: fault.Quota, code: fault.CodePortQuotaExceeded},
	{status: 403, text: regexp.MustCompile(`(?i)volume.*quota|quota.*(volume|gigabytes)|maximum number of volumes`), class: fault.Quota, code: fault.CodeVolumeQuotaExceeded},
	{status: 403, text: regexp.MustCompile(`(?i)quota exceeded|quota limit|exceeds? .*quota|maximum number of`), class: fault.Quota, code: fault.CodeQuotaExceeded},
	{status: 403, class: fault.Auth, code: fault.CodeForbidden},
	{status: 409, kind: "OverQuota", text: regexp.MustCompile(`'?\bport\b`), class: fault.Quota, code: fault.CodePortQuotaExceeded},
	{status: 409, kind: "OverQuota", text: regexp.MustCompile(`floatingip`), class: fault.Quota, code: fault.CodeFloatingIPQuotaExceeded},
	{status: 409, kind: "OverQuota", class: fault.Quota, code: fault.CodeQuotaExceeded},
	{status: 409, kind: "ExternalIpAddressExhausted", class: fault.NoCapacity, code: fault.CodeIPPoolExhausted},
	{status: 409, kind: "IpAddressGenerationFailure", class: fault.NoCapacity, code: fault.CodeAddressesExhausted},
	{status: 409, text: regexp.MustCompile(`(?i)quota exceeded`), class: fault.Quota, code: fault.CodeQuotaExceeded},
	{status: 409, class: fault.Conflict, code: fault.CodeConflict},
	{status: 413, text: regexp.MustCompile(`(?i)volume|gigabytes`), class: fault.Quota, code: fault.CodeVolumeQuotaExceeded},
	{status: 413, class: fault.Quota, code: fault.CodeQuotaExceeded},
	{service: Compute, status: 400, text: regexp.MustCompile(`(?i)availability zone is not available`), class: fault.NoCapacity, code: fault.CodeZoneUnavailable},
	{service: Compute, status: 400, text: regexp.MustCompile(`(?i)flavor.*could not be found|invalid flavorRef`), class: fault.Invalid, code: fault.CodeFlavorNotFound},
	{service: Compute, status: 400, text: regexp.MustCompile(`(?i)image.*(could not be found|can not find|is not active)|invalid imageRef`), class: fault.Invalid, code: fault.CodeImageNotFound},
	{status: 400, class: fault.Invalid, code: fault.CodeInvalidSpec},
	{status: 406, class: fault.Invalid, code: fault.CodeInvalidSpec},
	// No router connects the floating IP's port to the pool. The class is Invalid, because retries do not help.
	{service: Network, status: 404, kind: "ExternalGatewayForFloatingIPNotFound", class: fault.Invalid, code: fault.CodeInvalidSpec},
	{status: 404, class: fault.NotFound, code: fault.CodeResourceNotFound},
	{status: 410, class: fault.NotFound, code: fault.CodeResourceNotFound},
	{status: 429, class: fault.RateLimited, code: fault.CodeRateLimited},
	{status: 503, class: fault.Transient, code: fault.CodeCloudUnavailable},
}

func (r *refusal) fits(a answer) bool {
	return (r.service == "" || r.service == a.service) &&
		(r.status == 0 || r.status == a.status) &&
		(r.kind == "" || r.kind == a.kind) &&
		(r.text == nil || r.text.MatchString(a.text))
}

// judge returns the fault class and code of an error response. A response that is not OpenStack's proves nothing, whatever its
// status.
func judge(a answer) (fault.Class, fault.Code) {
	if a.isForeign() {
		return fault.Transient, fault.CodeForeignAnswer
	}
	for i := range refusals {
		if refusals[i].fits(a) {
			return refusals[i].class, refusals[i].code
		}
	}
	if a.status >= http.StatusInternalServerError {
		return fault.Transient, fault.CodeServerError
	}
	return fault.Unknown, fault.CodeUnknown
}

// classify returns the error for a failed call, with its class. The message has the cloud's own text without the values that
// must not be shown.
func classify(c Call, err error, creds *Credentials) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(renewing(err), &known) {
		e := *known
		e.Message, e.Err = fault.Line(creds.conceal(fmt.Sprintf("%s: %s", c.Doing, known.Message))), err
		return &e
	}
	e := unanswered(c, err)
	if resp, ok := refused(err); ok {
		service := c.Service
		if strings.HasSuffix(resp.URL, "/auth/tokens") {
			service = Identity
		}
		a := readAnswer(service, resp)
		class, code := judge(a)
		e = fault.New(class, code, "%s: %s (HTTP %d)", c.Doing, a.text, a.status)
		if e.RetryAfter = pauseAfter(resp.Actual, resp.ResponseHeader); e.RetryAfter > 0 {
			e.Class, e.Code = fault.RateLimited, fault.CodeRateLimited
		}
	}
	e.Message = fault.Line(creds.conceal(e.Message))
	e.Err = err
	return e
}

// renewing returns the reason why a token could not be renewed, if that is the cause of err, and err otherwise.
func renewing(err error) error {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return again.ErrReauth
	}
	return err
}

// refused returns the response in an error of the client library, including one wrapped in a reauthentication error.
func refused(err error) (gophercloud.ErrUnexpectedResponseCode, bool) {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return refused(again.ErrReauth)
	}
	var after *gophercloud.ErrErrorAfterReauthentication
	if errors.As(err, &after) {
		return refused(after.ErrOriginal)
	}
	var resp gophercloud.ErrUnexpectedResponseCode
	ok := errors.As(err, &resp)
	return resp, ok
}

// UnknownOutcome reports whether a create that failed with err may have succeeded in the cloud. It returns false when no
// connection was opened, and when the token was refused and could not be renewed.
func UnknownOutcome(err error) bool {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return false
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	e := fault.Of(err)
	return e != nil && e.Class == fault.Transient
}
