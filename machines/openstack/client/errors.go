package client

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// classify returns the error for a failed call, with its class. The message has the cloud's own text without the values that
// must not be shown.
func classify(c Call, err error, creds *Credentials) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(cause(err), &known) {
		e := *known
		e.Message, e.Err = fault.Line(creds.conceal(fmt.Sprintf("%s: %s", c.Doing, known.Message))), err
		return &e
	}
	e := unanswered(c, err)
	if a := answerTo(c, err); a != nil {
		code := a.row().code
		if a.pause > 0 {
			code = fault.CodeRateLimited
		}
		e = fault.New(fault.ClassOf(code), code, "%s: %s (HTTP %d)", c.Doing, a.text, a.status)
		if code == fault.CodeRateLimited {
			e.RetryAfter = cmp.Or(a.pause, impliedPause)
		}
	}
	e.Message = fault.Line(creds.conceal(e.Message))
	e.Err = err
	return e
}

// answerTo returns the answer with which the cloud refused a call; nil when err is no such answer.
func answerTo(c Call, err error) *answer {
	var resp gophercloud.ErrUnexpectedResponseCode
	if !errors.As(cause(err), &resp) {
		return nil
	}
	service := c.Service
	if strings.HasSuffix(resp.URL, "/auth/tokens") {
		service = Identity
	}
	return readAnswer(service, resp)
}

// cause returns what the client library has wrapped in err: the error of a call with a new token, or why there is no new token.
func cause(err error) error {
	var again *gophercloud.ErrUnableToReauthenticate
	var after *gophercloud.ErrErrorAfterReauthentication
	switch {
	case errors.As(err, &again):
		return cause(again.ErrReauth)
	case errors.As(err, &after):
		return cause(after.ErrOriginal)
	}
	return err
}

// UnknownOutcome reports whether a create that failed with err may have succeeded in the cloud. It returns false when it was not sent in
// observe mode, when no connection was opened, and when the token was refused and could not be renewed.
func UnknownOutcome(err error) bool {
	if errors.Is(err, errNotSent) {
		return false
	}
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
