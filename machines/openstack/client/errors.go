package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// answer is a refusal as the cloud gave it.
type answer struct {
	service Service
	status  int
	// text is the message, kind the type of error that Neutron names beside it.
	text, kind string
}

// refusal is a row of the table from an answer to its class. The first row that fits decides.
type refusal struct {
	service Service // empty: any
	status  int     // 0: any
	kind    string  // empty: any; Neutron's type
	text    *regexp.Regexp
	class   fault.Class
	code    fault.Code
}

// refusals says what each answer means. Texts were seen in the releases Zed to Epoxy.
var refusals = []refusal{
	{status: 401, class: fault.Auth, code: fault.CodeUnauthorized},
	// A token request with an application credential that was deleted is a 404.
	{service: Identity, status: 404, class: fault.Auth, code: fault.CodeUnauthorized},
	// A server group that is full is no quota of the project's.
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
	// A floating IP for a port that no router joins to the pool: nobody but a person can change that.
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

// judge gives the class of an answer.
func judge(a answer) (fault.Class, fault.Code) {
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

// Call describes one call to the cloud.
type Call struct {
	Service Service
	// Doing is a gerund with its object, for the error: creating port 0 of kube-system/a.
	Doing string
	// Version is the compute call's row in the table of microversions.
	Version Version
}

// classify turns a failure into its class, with the cloud's own words and none of the secrets.
func classify(c Call, err error, secrets []string) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(renewing(err), &known) {
		e := *known
		e.Message, e.Err = fault.Line(hide(fmt.Sprintf("%s: %s", c.Doing, known.Message), secrets)), err
		return &e
	}
	e := unanswered(c, err)
	if resp, ok := refused(err); ok {
		a := readAnswer(resp.Actual, resp.Body)
		a.service = c.Service
		if strings.HasSuffix(resp.URL, "/auth/tokens") {
			a.service = Identity
		}
		class, code := judge(a)
		e = fault.New(class, code, "%s", hide(fmt.Sprintf("%s: %s (HTTP %d)", c.Doing, a.text, a.status), secrets))
		if e.RetryAfter = pauseAfter(resp.Actual, resp.ResponseHeader); e.RetryAfter > 0 {
			e.Class, e.Code = fault.RateLimited, fault.CodeRateLimited
		}
	}
	e.Message = fault.Line(hide(e.Message, secrets))
	e.Err = err
	return e
}

// renewing gives why a token could not be renewed when that is what failed, else the error itself.
func renewing(err error) error {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return again.ErrReauth
	}
	return err
}

// refused finds the answer in an error of the client library, also behind its reauthentication errors.
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

// unanswered is a failure without an answer: the way to the cloud, or time.
func unanswered(c Call, err error) *fault.Error {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fault.New(fault.Transient, fault.CodeCloudUnavailable, "%s: no answer in time", c.Doing)
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Transient, fault.CodeCloudUnavailable, "%s: given up, drover is stopping", c.Doing)
	}
	return fault.New(fault.Transient, fault.CodeCloudUnavailable, "%s: %v", c.Doing, err)
}

// readAnswer takes the message out of a body: {"forbidden": {"message"}}, {"NeutronError": {"type", "message"}},
// {"error": {"message"}}, {"message"}, or a page of text.
func readAnswer(status int, body []byte) answer {
	type words struct {
		Message string `json:"message"`
		Detail  string `json:"detail"`
		Type    string `json:"type"`
	}
	a := answer{status: status}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		a.text = plain(string(body))
	}
	for key, raw := range outer {
		var w words
		var text string
		switch {
		case json.Unmarshal(raw, &w) == nil && w.Message != "":
			a.text, a.kind = w.Message, w.Type
			if w.Detail != "" && !strings.Contains(w.Message, w.Detail) {
				a.text += " " + w.Detail
			}
		case key == "NeutronError" && json.Unmarshal(raw, &text) == nil,
			key == "message" && json.Unmarshal(raw, &text) == nil:
			a.text = text
		}
	}
	if a.text == "" {
		a.text = http.StatusText(status)
	}
	return a
}

var markup = regexp.MustCompile(`(?s)<(script|style|title).*?</(script|style|title)>|<[^>]*>`)

// plain takes the text out of an HTML page.
func plain(page string) string { return strings.TrimSpace(markup.ReplaceAllString(page, " ")) }

// hide removes secrets from a text; nothing should have put them there.
func hide(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) > 3 {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// UnknownOutcome reports whether a create that failed like this may have made the thing all the same. One whose token was
// refused, and could not be renewed, has made nothing.
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
