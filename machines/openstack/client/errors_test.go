package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

func TestErrorClassOfAFailedCallToTheCloud(t *testing.T) {
	refuse := func(status int, body string, header ...string) error {
		h := http.Header{}
		if len(header) > 0 {
			h.Set("Retry-After", header[0])
		}
		return gophercloud.ErrUnexpectedResponseCode{Actual: status, Body: []byte(body), ResponseHeader: h, URL: "http://cloud/v2.1/servers/x"}
	}
	neutron := func(kind, text string) string {
		return `{"NeutronError":{"type":"` + kind + `","message":"` + text + `","detail":""}}`
	}
	for name, tc := range map[string]struct {
		service Service
		err     error
		class   fault.Class
		code    fault.Code
		says    string
		after   time.Duration
	}{
		"a 401 is an Auth error (MC-47)":                                             {Compute, refuse(401, `{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`), fault.Auth, fault.CodeUnauthorized, "requires authentication", 0},
		"a 403 because of a policy is an Auth error (MC-47)":                         {Compute, refuse(403, `{"forbidden":{"message":"Policy doesn't allow it"}}`), fault.Auth, fault.CodeForbidden, "Policy", 0},
		"Nova's 403 for a quota is a Quota error (MC-47)":                            {Compute, refuse(403, `{"forbidden":{"message":"Quota exceeded for cores, instances: Requested 2, 1, but already used 4, 2 of 4, 2 cores, instances","code":403}}`), fault.Quota, fault.CodeQuotaExceeded, "already used", 0},
		"Nova's 403 for the maximum number of ports is a Quota error (MC-47)":        {Compute, refuse(403, `{"forbidden":{"message":"Maximum number of ports exceeded"}}`), fault.Quota, fault.CodePortQuotaExceeded, "", 0},
		"Neutron's 409 for the quota of ports is a Quota error (MC-47)":              {Network, refuse(409, neutron("OverQuota", "Quota exceeded for resources: ['port'].")), fault.Quota, fault.CodePortQuotaExceeded, "", 0},
		"Neutron's 409 for the quota of floating IPs is a Quota error (MC-47)":       {Network, refuse(409, neutron("OverQuota", "Quota exceeded for resources: ['floatingip'].")), fault.Quota, fault.CodeFloatingIPQuotaExceeded, "", 0},
		"Neutron's 409 for the quota of security groups is a Quota error":            {Network, refuse(409, neutron("OverQuota", "Quota exceeded for resources: ['security_group'].")), fault.Quota, fault.CodeQuotaExceeded, "", 0},
		"an exhausted pool of floating IPs is a NoCapacity error":                    {Network, refuse(409, neutron("ExternalIpAddressExhausted", "Unable to find any IP address on external network.")), fault.NoCapacity, fault.CodeIPPoolExhausted, "", 0},
		"an exhausted subnet is a NoCapacity error":                                  {Network, refuse(409, neutron("IpAddressGenerationFailure", "No more IP addresses available.")), fault.NoCapacity, fault.CodeAddressesExhausted, "", 0},
		"a 409 because a port is in use is a Conflict error":                         {Network, refuse(409, neutron("PortInUse", "in use")), fault.Conflict, fault.CodeConflict, "", 0},
		"a 413 for the maximum number of volumes is a Quota error (MC-47)":           {Compute, refuse(413, `{"overLimit":{"message":"VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded"}}`), fault.Quota, fault.CodeVolumeQuotaExceeded, "", 0},
		"a 400 for an unavailable zone is a NoCapacity error (MC-47)":                {Compute, refuse(400, `{"badRequest":{"message":"The requested availability zone is not available"}}`), fault.NoCapacity, fault.CodeZoneUnavailable, "", 0},
		"a 400 for invalid input is an Invalid error (MC-47)":                        {Compute, refuse(400, `{"badRequest":{"message":"Invalid input"}}`), fault.Invalid, fault.CodeInvalidSpec, "Invalid input (HTTP 400)", 0},
		"a 404 for a server is a NotFound error (MC-47)":                             {Compute, refuse(404, `{"itemNotFound":{"message":"Instance x could not be found."}}`), fault.NotFound, fault.CodeResourceNotFound, "", 0},
		"a 404 from Keystone for a sign-in is an Auth error":                         {Identity, refuse(404, `{"error":{"code":404,"title":"Not Found","message":"Could not find Application Credential"}}`), fault.Auth, fault.CodeUnauthorized, "", 0},
		"a 429 with Retry-After is a RateLimited error with that wait (MC-47)":       {Network, refuse(429, `{"error":{"message":"slow down"}}`, "17"), fault.RateLimited, fault.CodeRateLimited, "", 17 * time.Second},
		"a 429 without Retry-After is a RateLimited error with a wait of one second": {Network, refuse(429, ``), fault.RateLimited, fault.CodeRateLimited, "", time.Second},
		"a 503 with Retry-After is a RateLimited error with that wait":               {Network, refuse(503, ``, "5"), fault.RateLimited, fault.CodeRateLimited, "", 5 * time.Second},
		"a 503 without Retry-After is a Transient error":                             {Network, refuse(503, `<html><head><title>503</title></head><body>No server is available</body></html>`), fault.Transient, fault.CodeCloudUnavailable, "the answer (unknown type) is not one of OpenStack's", 0},
		"a 500 is a Transient error":                                                 {Compute, refuse(500, `{"computeFault":{"message":"Unexpected API Error."}}`), fault.Transient, fault.CodeServerError, "", 0},
		"an HTML sign-in page with status 200 is a Transient error":                  {Network, refuse(200, `<html>Please sign in</html>`), fault.Transient, fault.CodeForeignAnswer, "the answer did not come from the network service", 0},
		"a 418 without a body is a Transient error":                                  {Compute, refuse(418, ``), fault.Transient, fault.CodeForeignAnswer, "teapot", 0},
		"a 401 after the token was renewed is an Auth error":                         {Compute, &gophercloud.ErrErrorAfterReauthentication{ErrOriginal: refuse(401, ``)}, fault.Auth, fault.CodeUnauthorized, "", 0},
		"a 401 for the renewal of the token is an Auth error":                        {Compute, &gophercloud.ErrUnableToReauthenticate{ErrOriginal: refuse(401, ``), ErrReauth: refuse(401, ``)}, fault.Auth, fault.CodeUnauthorized, "", 0},
		"a timeout is a Transient error":                                             {Compute, &url.Error{Op: "Post", Err: context.DeadlineExceeded}, fault.Transient, fault.CodeCloudUnavailable, "no answer in time", 0},
		"a broken connection is a Transient error":                                   {Compute, &url.Error{Op: "Post", Err: &net.OpError{Op: "read", Err: errors.New("connection reset")}}, fault.Transient, fault.CodeCloudUnavailable, "connection reset", 0},
		"a request that drover's own limiter refuses is a RateLimited error":         {Compute, &url.Error{Err: fault.New(fault.RateLimited, fault.CodeRateLimited, "rest")}, fault.RateLimited, fault.CodeRateLimited, "making it: rest", 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := fault.Of(classify(Call{Service: tc.service, Doing: "making it"}, tc.err, nil))
			if e.Class != tc.class || e.Code != tc.code || e.RetryAfter != tc.after {
				t.Fatalf("got %s %s after %s: %s", e.Class, e.Code, e.RetryAfter, e.Message)
			}
			if !strings.HasPrefix(e.Message, "making it: ") || !strings.Contains(e.Message, tc.says) {
				t.Errorf("got %q", e.Message)
			}
			if fault.ClassOf(e.Code) != e.Class {
				t.Errorf("the code %s alone means %s", e.Code, fault.ClassOf(e.Code))
			}
		})
	}
}

func TestMessageOfAFailedCallShowsNoSecret(t *testing.T) {
	t.Run("the message is one line without the password (CA-C54)", func(t *testing.T) {
		err := classify(Call{Doing: "x"}, errors.New("password s3cr3t-word refused\nline 2 "+strings.Repeat("z", 2*fault.MaxMessage)), &Credentials{Password: "s3cr3t-word"})
		if m := err.Error(); strings.Contains(m, "s3cr3t-word") || len(m) > fault.MaxMessage || strings.ContainsAny(m, "\n\t\r") {
			t.Fatalf("got %q", m)
		}
	})
}

func TestWhetherAResourceMayExistAfterItsCreateCallFailed(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"it does not exist when the connection is refused": {&net.OpError{Op: "dial", Err: errors.New("refused")}, false},
		"it may exist when the answer is lost":             {&net.OpError{Op: "read", Err: errors.New("reset")}, true},
		"it may exist when the cloud answers 500":          {gophercloud.ErrUnexpectedResponseCode{Actual: 500}, true},
		"it does not exist when the cloud answers 400":     {gophercloud.ErrUnexpectedResponseCode{Actual: 400, Body: []byte(`{"badRequest":{"code":400,"message":"no"}}`)}, false},
		"it does not exist when the cloud answers 429":     {gophercloud.ErrUnexpectedResponseCode{Actual: 429}, false},
		"it may exist when a proxy answers 403":            {gophercloud.ErrUnexpectedResponseCode{Actual: 403, Body: []byte("<html>")}, true},
		"it does not exist when a vendor's JSON answers (F-131)": {gophercloud.ErrUnexpectedResponseCode{
			Actual: 400, Body: []byte(`{"error":{"code":"Ecs.0019","message":"no"}}`),
		}, false},
	} {
		t.Run(name+" (CAPI-19)", func(t *testing.T) {
			if got := UnknownOutcome(classify(Call{Doing: "x"}, tc.err, nil)); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhetherAResourceMayExistAfterItsCreateCallWasAnsweredWith401(t *testing.T) {
	busy := fault.New(fault.RateLimited, fault.CodeRateLimited, "the identity service is busy")
	busy.RetryAfter = time.Second
	for _, tt := range []struct {
		name  string
		cause error
		class fault.Class
	}{
		{"it does not exist when the request for a new token then waits because of a rate limit", &url.Error{Op: "Post", URL: "http://cloud/v3/auth/tokens", Err: busy}, fault.RateLimited},
		{"it does not exist when Keystone then does not answer the request for a new token", &url.Error{Op: "Post", URL: "http://cloud/v3/auth/tokens", Err: context.DeadlineExceeded}, fault.Transient},
		{"it does not exist when Keystone then answers the request for a new token with 503", gophercloud.ErrUnexpectedResponseCode{URL: "http://cloud/v3/auth/tokens", Actual: http.StatusServiceUnavailable}, fault.Transient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := classify(Call{Service: Compute, Doing: "creating server a"}, &gophercloud.ErrUnableToReauthenticate{
				ErrOriginal: gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusUnauthorized}, ErrReauth: tt.cause,
			}, nil)
			if !fault.Is(err, tt.class) || UnknownOutcome(err) {
				t.Errorf("got %v of class %s; may it be there: %v", err, fault.Of(err).Class, UnknownOutcome(err))
			}
		})
	}
}
